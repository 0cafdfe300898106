"""What pages say is what the tables hold: counts, runtimes and speed-ups, over all published rows of a sample."""

import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from flows.pages.scaling import with_gains
from flows.pages.site import page_name, write_pages
from flows.services.published.advice import advice_of_groups, cost_of_run
from flows.services.site_facts import site_facts
from pipeline.publish import Manifest, read_version
from pipeline.schema import MOST_EFFICIENCY
from pipeline.storage import read_table
from pipeline.tables import PREDICTIONS

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Manifest]]:
    """A run of the sample; or the folder of WALLTIME_PUBLISHED, as that of a long log."""
    given = os.environ.get("WALLTIME_PUBLISHED")
    folder = Path(given) if given else tmp_path_factory.mktemp("agree") / "tables"
    if not given:
        words = ("run", str(ROOT / "configs" / "slurm.toml"), "--out", str(folder), "--plain", "--quiet")
        subprocess.run([sys.executable, "-m", "flows.cli", *words], cwd=ROOT, check=True)
    manifest = read_version(folder)
    yield folder, manifest


def by_group(manifest: Manifest) -> dict[str, list[dict[str, Any]]]:
    """The rows of PREDICTIONS by group."""
    found = defaultdict(list)
    for row in read_table(manifest.path(PREDICTIONS.name), PREDICTIONS).to_pylist():
        found[row["group_id"]].append(row)
    return found


def test_speedup_times_runtime_is_one_number_and_efficiencies_are_possible(published: tuple[Path, Manifest]) -> None:
    for group, rows in by_group(published[1]).items():
        on_one_s = [row["speedup"] * row["runtime_s"] for row in rows if row["speedup"] is not None]
        assert on_one_s == pytest.approx(on_one_s[:1] * len(on_one_s)), group
        assert len(on_one_s) in (0, len(rows)), group
        assert all(row["efficiency"] is None or row["efficiency"] <= MOST_EFFICIENCY for row in rows), group


def test_recommended_counts_and_runtimes_are_rows_of_the_table(published: tuple[Path, Manifest]) -> None:
    manifest, rows = published[1], by_group(published[1])
    advised = advice_of_groups(manifest, list(rows), cost_of_run(manifest))
    for group, found in advised.items():
        held = {row["procs"]: row["runtime_s"] for row in rows[group]}
        for one in found["choices"]:
            assert one["runtime_s"] == pytest.approx(held[one["procs"]]), group
        efficiencies = [one["efficiency"] for one in found["choices"] if one["efficiency"] is not None]
        assert max(efficiencies, default=0) <= MOST_EFFICIENCY, group


def test_a_page_asks_for_one_count_which_is_that_of_the_site(published: tuple[Path, Manifest], tmp_path: Path) -> None:
    folder, manifest = published
    facts = site_facts(folder, manifest)
    write_pages(manifest, facts, tmp_path, cost_of_run(manifest))
    asked = 0
    # Jobs of no known application are of many programs: no one count is right for them. Some logs advise none at all.
    advised = [row for row in facts["applications"] if row["name"] is not None and row["best_procs"] is not None]
    for row in advised:
        page = tmp_path / page_name(row["name"])
        if page.is_file():
            text = unescape(page.read_text())
            assert re.findall(r"<b>Ask for ([^<]*)</b>", text) == [row["best_count"]]
            asked += 1
    assert asked or not advised


def test_failures_are_listed_by_user_only_where_asked_for(published: tuple[Path, Manifest]) -> None:
    without, beside = (
        {row["kind"] for row in site_facts(*published, users=users)["failures"]} for users in (False, True)
    )
    assert without == {"user"} or ("user" not in without and without == beside - {"user"})


def test_a_speedup_is_the_ratio_of_the_runtimes_shown_or_absent() -> None:
    rows = [{"procs": 8, "runtime_s": 100.0}, {"procs": 16, "runtime_s": 60.0}]
    assert [row["speedup"] for row in with_gains(rows, rows[0])] == [1.0, 100.0 / 60.0]
    assert with_gains(rows, rows[0])[1]["efficiency"] == pytest.approx(100 / 120)
    rows[1]["runtime_s"] = 10.0
    assert [row["speedup"] for row in with_gains(rows, rows[0])] == [None, None]


def test_failures_of_the_last_week_do_not_depend_on_one_job_that_ended_months_later(tmp_path: Path) -> None:
    """One job of a real log ended four months after the last submit, and was the only one of its last week."""
    day_s, lines = 86_400, []
    for nth in range(30):
        runtime_s, status = (120 * day_s, 1) if nth == 29 else (600, 0 if nth % 2 else 1)
        lines.append(f"{nth + 1} {nth * day_s} 0 {runtime_s} 4 -1 -1 4 -1 -1 {status} 1 1 1 1 -1 -1 -1\n")
    (tmp_path / "late.swf").write_text("; UnixStartTime: 1700000000\n" + "".join(lines))
    (tmp_path / "late.toml").write_text(
        f'logs = ["{tmp_path / "late.swf"}"]\noutput_dir = "{tmp_path / "out"}"\n[checks.newest_job]\nmode = "off"\n'
    )
    words = ("run", str(tmp_path / "late.toml"), "--plain", "--quiet")
    subprocess.run([sys.executable, "-m", "flows.cli", *words], cwd=ROOT, check=True)
    failed = site_facts(tmp_path / "out", read_version(tmp_path / "out"), users=True)["failures"]
    of_user = [row for row in failed if row["kind"] == "user"]
    assert [(row["n_jobs"], row["n_failed"]) for row in of_user] == [(8, 4)]
