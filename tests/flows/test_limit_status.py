"""`walltime limits --status` by the command: limits that the guard has set, the accounting of these jobs, a run."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipeline.ingest.slurm_texts import limit_comment
from tests.flows.fake_programs import Sacct, job
from tests.flows.support import Outcome
from tests.flows.test_guard import Site, guarded, running, slurm_job

Walltime = Callable[..., Outcome]
NOTED = limit_comment("dry_run", "stamp=ab", 60, 600)


def ended(number: int, minutes: int, known: dict[str, Any]) -> dict[str, str]:
    """What the accounting has of a job of the queue that ran for so long, with the limit that it had in the end."""
    plain = job(number)
    return plain | {
        "TimelimitRaw": str(known["time_limit"]), "AdminComment": known["admin_comment"],
        "End": plain["Start"].replace(":01:", f":{minutes + 1}:"), "ElapsedRaw": str(60 * minutes),
        "Elapsed": f"00:{minutes}:00",
    }  # fmt: skip


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return Site(tmp_path)


def test_it_counts_what_the_guard_has_set_and_says_whose_mode_it_shows(site: Site, walltime: Walltime) -> None:
    site.queue(slurm_job(107), running(108))
    guarded(walltime, site)
    known = site.jobs() | {109: slurm_job(109, admin_comment=NOTED)}
    assert (known[107]["time_limit"], known[108]["time_limit"]) == (60, 75)
    jobs = [ended(107, 30, known[107]), ended(108, 50, known[108]), ended(109, 30, known[109])]
    sacct = Sacct(site.folder / "accounting", [*(job(n) for n in range(40)), *jobs])
    source = f"[source]\nkind = 'sacct'\nsince = '2026-01-01'\n[ingest]\nsacct_command = '{sacct.path}'\n"
    config = site.config(export=source)
    assert walltime("run", config, "--plain", "--quiet").err == ""

    found = json.loads(walltime("limits", config, "--status", "--json").out)
    (week,) = found["weeks"]
    counted = {name: week[name] for name in ("n_planned", "n_dry_run", "n_raised", "n_ended")}
    assert counted == {"n_planned": 3, "n_dry_run": 1, "n_raised": 1, "n_ended": 0}
    assert week["earlier_proc_hours"] == 3 * 4 * 9.0 and week["week"] == "2025-12-29"
    assert found["mode"] == "limit"

    mode = f"The published run {found['run_id']} has export.mode limit"
    said = walltime("limits", config, "--status").out
    assert f"{mode}.\n" in said and "0 jobs were ended at a limit below their requests." in said
    assert f"{mode}.\n" in walltime("limits", site.out, "--status").out, "a folder has no config"
