"""Records with wrong times, and records that a rule of the site names, change nothing that a run learns."""

import gzip
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from flows.services.run.running import run_and_publish
from flows.services.site_facts import site_facts
from pipeline.ingest import ingest
from pipeline.publish import load_manifest
from pipeline.run import start_run
from pipeline.settings import CleanSettings, IngestSettings, RunSettings, SiteRule, SiteSettings
from tools.plain_run import run_plain

DAY_S, YEAR_S = 86_400, 365 * 86_400
BEGIN_S = 1_700_000_000
RIVERBEND = Path(__file__).parents[2] / "data_samples" / "riverbend.swf.gz"
HEADER = "JobID|Cluster|User|JobName|Account|Partition|Submit|Start|End|ElapsedRaw|TimelimitRaw|AllocCPUS|State|ReqMem"
USERS = [f"user{number}" for number in range(8)]
Job = tuple[int, str, str, int, int, int, int]
"""Id, cluster, user, submit, wait, runtime, processors; s."""


def simulated(n_jobs: int = 1_600, seed: int = 41) -> list[Job]:
    """A quarter of a year of jobs of 8 users, each with a runtime of its own."""
    rng = np.random.default_rng(seed)
    submits = BEGIN_S + np.sort(rng.integers(0, 90 * DAY_S, n_jobs))
    users, waits, sizes = rng.integers(0, 8, n_jobs), rng.integers(0, 600, n_jobs), 2 ** rng.integers(0, 5, n_jobs)
    runtimes = np.rint(600.0 * (1 + users) * rng.lognormal(0, 0.2, n_jobs)).astype(int)
    columns = (users.tolist(), submits.tolist(), waits.tolist(), runtimes.tolist(), sizes.tolist())
    rows = enumerate(zip(*columns, strict=True), 1)
    return [(place, "alpha", USERS[user], *rest) for place, (user, *rest) in rows]  # type: ignore[misc]


def stamp(time_s: int) -> str:
    return f"{datetime.fromtimestamp(time_s, UTC):%Y-%m-%dT%H:%M:%S}"


def line(job: Job, state: str = "COMPLETED", submit: str = "", end: str = "") -> str:
    number, cluster, user, submit_s, wait_s, runtime_s, procs = job
    start_s = submit_s + wait_s
    times = f"{submit or stamp(submit_s)}|{stamp(start_s)}|{end or stamp(start_s + runtime_s)}"
    return f"{number}|{cluster}|{user}|solve|chem|cpu|{times}|{runtime_s}|180|{procs}|{state}|{procs}G"


def tables_of(lines: Sequence[str] | str, clean: CleanSettings | None = None, name: str = "log.txt") -> dict[str, Any]:
    """Every table of a run over a dump of these lines, or over a text of SWF."""
    text = lines if isinstance(lines, str) else "\n".join([HEADER, *lines]) + "\n"
    settings = RunSettings(site=SiteSettings(name="here"), clean=clean or CleanSettings())
    with TemporaryDirectory() as folder:
        (Path(folder) / name).write_text(text)
        found: dict[str, Any] = {}
        for _, written, _ in run_plain(start_run(settings, [Path(folder) / name])):
            found |= written
    return found


@cache
def plain() -> dict[str, Any]:
    return tables_of([line(job) for job in simulated()])


KEY = ["template", "who", "what", "queue", "requested_s", "procs", "gpus", "gpu_type"]


def flags_of(tables: dict[str, Any], user: str) -> set[str | None]:
    return {row["flag"] for row in tables["jobs"].select(["user", "flag"]).to_pylist() if row["user"] == user}


LAST_S = BEGIN_S + 90 * DAY_S
FUTURE = {
    "submit +120 days": line((9_001, "alpha", "zed", LAST_S + 120 * DAY_S, 5, 60, 1)),
    "submit +10 years": line((9_001, "alpha", "zed", LAST_S + 10 * YEAR_S, 5, 60, 1)),
    "wait of 400 days": line((9_001, "alpha", "zed", LAST_S - 5, 400 * DAY_S, 60, 1)),
    "end in 2106": line((9_001, "alpha", "zed", LAST_S - 5, 5, 60, 1), end="2106-02-07T06:28:15"),
    "elapsed of 49710 days": line((9_001, "alpha", "zed", LAST_S - 5, 5, 2**32 - 1, 4), "RUNNING", end="Unknown"),
    "cancelled": line((9_001, "alpha", "zed", LAST_S + 10 * YEAR_S, 0, 0, 1), "CANCELLED by 7"),
    "submit in 1970": line((9_001, "alpha", "zed", 3_600, 5, 60, 1)),
}


@pytest.mark.parametrize("name", FUTURE)
def test_one_record_far_outside_the_log_changes_no_estimate(name: str) -> None:
    found = tables_of([*(line(job) for job in simulated()), FUTURE[name]])
    assert flags_of(found, "zed") == {"impossible_times"}
    for table in ("estimates", "advice", "memory"):
        assert found[table].drop_columns("run_id").equals(plain()[table].drop_columns("run_id")), table


def test_a_record_from_the_future_changes_no_estimate_of_riverbend() -> None:
    text = gzip.decompress(RIVERBEND.read_bytes()).decode()
    one = "12124 3200000000 0 5 1 5 27136 1 300 65536 1 98 9 92 1 1 -1 -1\n"
    found, expected = (tables_of(own, name="log.swf") for own in (text + one, text))
    assert found["jobs"].num_rows == expected["jobs"].num_rows + 1
    for table in ("estimates", "advice", "memory"):
        assert found[table].drop_columns("run_id").equals(expected[table].drop_columns("run_id")), table


def test_a_hundredth_of_wrong_records_of_each_kind_changes_no_estimate() -> None:
    """From the future, spread and at one instant; and without times."""
    jobs = simulated()
    some = jobs[:: len(jobs) // 16]
    wrong = [line((n + 10_000, c, u, s + 10 * YEAR_S + n * DAY_S, *rest)) for n, c, u, s, *rest in some]  # type: ignore[arg-type]
    wrong += [line((job[0] + 20_000, *job[1:]), end="2038-01-19T03:14:07") for job in some]  # type: ignore[arg-type]
    wrong += [line((job[0] + 30_000, *job[1:]), submit="Unknown") for job in some]  # type: ignore[arg-type]
    found = tables_of([*(line(job) for job in jobs), *wrong])
    assert found["jobs"].num_rows == len(jobs) + len(wrong)
    assert found["jobs"].column("flag").null_count == plain()["jobs"].column("flag").null_count
    for table in ("estimates", "advice", "memory"):
        assert found[table].drop_columns("run_id").equals(plain()[table].drop_columns("run_id")), table


def test_a_hundredth_of_jobs_with_the_ids_of_another_cluster_changes_few_estimates() -> None:
    """They are jobs like any others: what they change is what they change under ids of their own."""
    jobs = simulated()
    some = jobs[:: len(jobs) // 16]
    lines = [line(job) for job in jobs]
    shared, own = (
        tables_of([*lines, *(line((n + more, "beta", "zed", s, *rest)) for n, _, _, s, *rest in some)])  # type: ignore[arg-type]
        for more in (0, 20_000)
    )
    assert shared["jobs"].num_rows == len(jobs) + len(some)
    assert set(shared["jobs"].column("restart").to_pylist()) == {0}
    rows = {tuple(row[name] for name in KEY): row for row in shared["estimates"].to_pylist()}
    expected = plain()["estimates"].to_pylist()
    other = [
        row for row in expected
        if rows[tuple(row[name] for name in KEY)]["runtime_s_q50"] != pytest.approx(row["runtime_s_q50"], rel=0.02)
    ]  # fmt: skip
    assert len(other) <= 0.03 * len(expected)
    assert shared["estimates"].drop_columns("run_id").equals(own["estimates"].drop_columns("run_id"))


def test_a_log_that_goes_on_after_half_a_year_is_learnt_from() -> None:
    """A pause is none of the records' fault, once they come as often as before."""
    jobs = simulated()
    later = [(n, c, u, s + (200 * DAY_S if n > 1_560 else 0), *rest) for n, c, u, s, *rest in jobs]
    found = tables_of([line(job) for job in later])  # type: ignore[arg-type]
    assert "impossible_times" not in set(found["jobs"].column("flag").to_pylist())


@pytest.mark.parametrize("gap_days", [30, 400])
def test_a_log_of_few_jobs_far_apart_is_plausible(gap_days: int) -> None:
    jobs = [(n, "alpha", "ann", BEGIN_S + n * gap_days * DAY_S, 5, 3_600, 4) for n in range(1, 15)]
    found = tables_of([line(job) for job in jobs])
    assert "impossible_times" not in set(found["jobs"].column("flag").to_pylist())


def test_a_rule_that_names_a_record_drops_it_before_anything_is_learnt() -> None:
    """The dropped jobs are a burst of one user, and one job years after the log."""
    burst = [line((20_000 + n, "alpha", "zed", BEGIN_S + 40 * DAY_S + n, 5, 60, 1)) for n in range(2_000)]
    rules = CleanSettings(drop=(SiteRule(user="zed", reason="tests"),))
    found = tables_of([*(line(job) for job in simulated()), *burst, FUTURE["submit +10 years"]], rules)
    assert flags_of(found, "zed") == {"site_drop"}
    assert found["bursts"].num_rows == plain()["bursts"].num_rows == 0
    for table in ("estimates", "advice", "memory", "templates"):
        names = [name for name in found[table].column_names if name != "run_id"]
        assert found[table].select(names).equals(plain()[table].select(names)), table


def test_a_rule_drops_a_burst_by_its_name() -> None:
    burst = [line((20_000 + n, "alpha", "zed", BEGIN_S + 40 * DAY_S + n, 5, 60, 1)) for n in range(2_000)]
    lines = [*(line(job) for job in simulated()), *burst]
    name = tables_of(lines)["bursts"].column("burst_id").to_pylist()[0]
    found = tables_of(lines, CleanSettings(drop=(SiteRule(burst=name, reason="tests"),)))
    assert flags_of(found, "zed") == {"site_drop"}


def swf(submits: Sequence[int], header: str = "; UnixStartTime: 1772438400") -> str:
    rows = (f"{n} {s} 10 1800 16 -1 -1 16 3600 -1 1 {n % 3} 1 1 1 1 -1 -1" for n, s in enumerate(submits, 1))
    return "\n".join([header, *rows]) + "\n"


def ingested(tmp_path: Path, text: str) -> tuple[pa.Table, Any]:
    (tmp_path / "log.swf").write_text(text)
    jobs, _, report = ingest([tmp_path / "log.swf"], SiteSettings(), IngestSettings())
    return jobs, report


def test_submits_of_swf_that_count_from_1970_are_not_moved_by_the_header(tmp_path: Path) -> None:
    submits = [1_772_439_000 + 600 * n for n in range(30)]
    jobs, report = ingested(tmp_path, swf(submits))
    assert jobs.column("submit_s").to_pylist() == submits
    assert any("30 jobs count from 1970 already: UnixStartTime is not added" in note for note in report.notes)


def test_one_wrong_submit_of_swf_does_not_make_the_others_count_from_1970(tmp_path: Path) -> None:
    jobs, report = ingested(tmp_path, swf([1_900_000_000, *range(600, 6_000, 600)]))
    assert sorted(jobs.column("submit_s").to_pylist())[0] == 1_772_438_400 + 600
    assert not any("1970 already" in note for note in report.notes)


def test_each_header_of_swf_is_judged_by_its_own_jobs(tmp_path: Path) -> None:
    later = swf([600, 1_200], "; UnixStartTime: 1800000000")
    jobs, _ = ingested(tmp_path, swf([1_772_439_000, 1_772_439_600]) + later)
    assert jobs.column("submit_s").to_pylist() == [1_772_439_000, 1_772_439_600, 1_800_000_600, 1_800_001_200]


def test_no_page_meets_a_time_that_no_calendar_has(tmp_path: Path) -> None:
    """Far times stand in the table of jobs; the facts of a site's page are made without them."""
    (tmp_path / "log.swf").write_text(swf([10**16 * n for n in range(1, 20)], "; UnixStartTime: 1000000000"))
    config, out = tmp_path / "here.toml", tmp_path / "out"
    config.write_text(f'logs = ["log.swf"]\noutput_dir = "{out}"\n[site]\nname = "here"\n')
    run_and_publish(str(config))
    facts = site_facts(out, load_manifest(out))
    assert facts["days"] == facts["queues"] == []
    assert [row["proc_hours"] for row in facts["applications"]] == [0.0]
    assert {row["name"]: row["jobs"] for row in facts["cleaning"]} == {"kept": 0, "impossible_times": 19, "all": 19}
