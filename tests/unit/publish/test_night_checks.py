"""Checks of a night: each finds its own fault and nothing else, and passes a sound night."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.errors import InputError
from pipeline.publish import checks
from pipeline.publish.checks import (
    CHECKS,
    CheckResult,
    Night,
    blocking,
    broken_conditions,
    check_night,
    out_of_range,
    version_before,
)
from pipeline.publish.manifest import TableEntry, made_manifest, table_entry
from pipeline.settings import CheckSettings, parse_settings
from pipeline.tables import JOBS, TABLES
from tests.unit.publish.versions_of_tables import (
    DAY_S,
    NEWEST_S,
    estimates,
    jobs,
    observations,
    predictions,
    run_facts,
    staged,
    templates,
)

GOOD = {
    "predict": {"past_jobs": 500, "in_80_later": 0.78, "in_95_later": 0.94},
    "learn": {"n_scored": 500.0, "coverage_80": 0.79, "coverage_q80": 0.8, "coverage_q90": 0.9, "coverage_q95": 0.95},
}
ON = {"newest_job": {"mode": "block"}, "coverage": {"mode": "block"}, "more_rows": {"mode": "block"}}
DAMAGED = parse_settings({"checks": ON}, "test").checks


def entries_of(files: dict[str, Path]) -> dict[str, TableEntry]:
    return {name: table_entry(path, TABLES[name]) for name, path in files.items()}


def night_of(
    files: dict[str, Path],
    settings: CheckSettings,
    reports: dict[str, Any] = GOOD,
    now_s: float = NEWEST_S,
    before: dict[str, TableEntry] | None = None,
    **changed: Any,
) -> Night:
    """The night whose tables are these files, of this code."""
    sound = made_manifest({}, [], run_facts(), Path("out"), 0)
    reported = tuple({"stage": stage, "facts": facts} for stage, facts in reports.items())
    made = replace(sound, **{"tables": entries_of(files), "reports": reported} | changed)
    return Night(made, files, now_s, settings, before)


def results(
    folder: Path,
    before: dict[str, pa.Table] | None = None,
    settings: CheckSettings = DAMAGED,
    reports: dict[str, Any] | None = None,
    now_s: float = NEWEST_S + DAY_S,
    **tables: pa.Table,
) -> dict[str, CheckResult]:
    """The results on a sound night with some tables replaced; `before` replaces some of the night before."""
    past = None
    if before is not None:
        past = entries_of(staged(folder / "before", **before))
    files = staged(folder / "now", **tables)
    return {one.check: one for one in check_night(night_of(files, settings, reports or GOOD, now_s, past))}


def failures(found: dict[str, CheckResult]) -> dict[str, list[str]]:
    return {name: [str(one) for one in result.findings] for name, result in found.items() if result.state == "failed"}


def test_every_check_has_settings_and_every_setting_a_check() -> None:
    assert list(CheckSettings.model_fields) == list(CHECKS)


def test_a_sound_night_passes_every_check(tmp_path: Path) -> None:
    assert {one.state for one in results(tmp_path, before={}).values()} == {"passed"}


def test_the_first_night_has_no_comparison_and_passes_the_others(tmp_path: Path) -> None:
    found = results(tmp_path)
    skipped = {name for name, one in found.items() if one.state == "skipped"}
    assert skipped == {"fewer_rows", "more_rows", "null_shares"}
    assert {found[name].reason for name in skipped} == {"no version was published before"}
    assert {one.state for name, one in found.items() if name not in skipped} == {"passed"}


FLAGGED = ["elapsed_disagrees"] * 150 + [None] * 50
FAULTS: dict[str, tuple[dict[str, Any], str, list[str]]] = {
    "a table that shrank": (
        {"jobs": jobs(99)}, "fewer_rows",
        ["jobs: found 99 rows, expected at least 100, as the version before has 200",
         "jobs that cleaning kept: found 99 rows, expected at least 100, as the version before has 200"],
    ),
    "cleaning that set aside most jobs": (
        {"jobs": jobs(200, flag=FLAGGED)}, "fewer_rows",
        ["jobs that cleaning kept: found 50 rows, expected at least 100, as the version before has 200"],
    ),
    "a table that grew": (
        {"estimates": estimates(401)}, "more_rows",
        ["estimates: found 401 rows, expected at most 400, as the version before has 200"],
    ),
    "a field that the log no longer has": (
        {"jobs": jobs(200, user=["ann"] * 99 + [None] * 101)}, "null_shares",
        ["jobs.user: found 50.5% nulls, expected at most 50.0%, as the version before has 0.0%"],
    ),
    "a negative runtime of a kept job": (
        {"jobs": jobs(200, runtime_s=[-1.0] + [60.0] * 199)}, "ranges",
        ["jobs: found 1 of 200 rows against runtime_s >= 0 or a flag, expected none"],
    ),
    "an efficiency of zero": (
        {"predictions": predictions(200, efficiency=[0.0] + [0.5] * 199)}, "ranges",
        ["predictions: found 1 of 200 rows against efficiency > 0, expected none"],
    ),
    "interval ends out of order": (
        {"predictions": predictions(200, runtime_s_hi80=[90.0] + [70.0] * 199)}, "ranges",
        ["predictions: found 1 of 200 rows against runtime_s_hi80 <= runtime_s_hi95, expected none"],
    ),
    "quantiles out of order": (
        {"estimates": estimates(200, runtime_s_q50=[9.0] + [50.0] * 199)}, "ranges",
        ["estimates: found 1 of 200 rows against runtime_s_q10 <= runtime_s_q50, expected none"],
    ),
    "intervals of predictions that held too rarely": (
        {"reports": GOOD | {"predict": GOOD["predict"] | {"in_80_later": 0.69}}}, "coverage",
        ["predict.in_80_later: found 69.0%, expected at least 70.0% of later jobs"],
    ),
    "quantiles of the estimator that held too rarely": (
        {"reports": GOOD | {"learn": GOOD["learn"] | {"coverage_q95": 0.8}}}, "coverage",
        ["learn.coverage_q95: found 80.0%, expected at least 85.0% of later jobs"],
    ),
    "a log that ended days ago": (
        {"now_s": NEWEST_S + 2.5 * DAY_S}, "newest_job",
        ["jobs: found a newest job that ended 2.5 days ago, expected at most 2 days"],
    ),
    "a log of the future": (
        {"now_s": NEWEST_S - 1.5 * DAY_S}, "newest_job",
        ["jobs: found a newest job that ends 1.5 days after now, expected an end in the past"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_fails_its_check_and_no_other(tmp_path: Path, fault: str) -> None:
    change, check, sentences = FAULTS[fault]
    assert failures(results(tmp_path, before={}, **change)) == {check: sentences}


@pytest.mark.parametrize("name", sorted({check for _, check, _ in FAULTS.values()}))
@pytest.mark.parametrize(("mode", "state", "blocks"), [("off", "skipped", False), ("warn", "failed", False)])
def test_the_site_chooses_what_a_failure_does(tmp_path: Path, name: str, mode: str, state: str, blocks: bool) -> None:
    change = next(change for change, check, _ in FAULTS.values() if check == name)
    settings = parse_settings({"checks": {name: {"mode": mode}}}, "test").checks
    result = results(tmp_path, before={}, settings=settings, **change)[name]
    assert (result.state, blocking([result]) == [result]) == (state, blocks)


@pytest.mark.parametrize(
    ("name", "wider", "fault"),
    [
        ("fewer_rows", {"ROWS_GONE": 0.9}, "a table that shrank"),
        ("more_rows", {"GROWTH": 3.0}, "a table that grew"),
        ("null_shares", {"MORE_NULLS": 0.6}, "a field that the log no longer has"),
        ("coverage", {"SHORTFALL": 0.2}, "intervals of predictions that held too rarely"),
    ],
)
def test_a_wider_rule_lets_the_fault_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, wider: dict[str, float], fault: str
) -> None:
    for constant, value in wider.items():
        monkeypatch.setattr(checks, constant, value)
    found = results(tmp_path, before={}, **FAULTS[fault][0])
    assert found[name].state == "passed"


def test_the_site_chooses_how_old_the_newest_job_may_be(tmp_path: Path) -> None:
    settings = parse_settings({"checks": {"newest_job": {"mode": "block", "threshold": 3.0}}}, "test").checks
    change = FAULTS["a log that ended days ago"][0]
    assert results(tmp_path, before={}, settings=settings, **change)["newest_job"].state == "passed"


def test_tiny_tables_and_few_scored_jobs_are_not_judged(tmp_path: Path) -> None:
    tiny = {"observations": observations([60.0] * 10)}
    assert failures(results(tmp_path / "a", before=tiny, observations=observations([60.0]))) == {}
    hole = {"jobs": jobs(60, user=[None] * 60)}
    assert failures(results(tmp_path / "b", before={"jobs": jobs(60)}, **hole)) == {}
    unsure = {"predict": GOOD["predict"] | {"past_jobs": 199, "in_80_later": 0.1}}
    assert failures(results(tmp_path / "c", before={}, reports=unsure)) == {}


def test_a_table_that_is_gone_has_fewer_rows(tmp_path: Path) -> None:
    past = entries_of(staged(tmp_path / "before"))
    files = staged(tmp_path / "now")
    del files["estimates"]
    night = night_of(files, CheckSettings(), before=past)
    found = failures({one.check: one for one in check_night(night)})
    assert found == {"fewer_rows": ["estimates: found 0 rows, expected at least 100, as the version before has 200"]}


@pytest.mark.parametrize("previous", ["user", "user+procs", "none"])
def test_tables_of_another_template_are_not_compared_in_size(tmp_path: Path, previous: str) -> None:
    fewer = {"observations": observations([60.0] * 20), "estimates": estimates(20)}
    found = failures(results(tmp_path, before={}, templates=templates("user", previous), **fewer))
    tables = [sentence.split(":")[0] for sentence in found["fewer_rows"]]
    assert tables == (["estimates"] if previous == "user+procs" else ["observations", "estimates"])


def test_every_condition_of_a_range_can_be_contradicted_and_a_null_contradicts_none(tmp_path: Path) -> None:
    for kind in TABLES.values():
        numbers = {c.name: c for c in kind.columns if pa.types.is_integer(c.type) or pa.types.is_floating(c.type)}
        for condition in broken_conditions(kind, kind.schema().names):
            left, sign, right = condition.removesuffix(" or a flag").split()
            row = {left: -5.0} if right not in numbers else {left: 9.0, right: 8.0}
            assert {left} <= set(numbers) and sign in ("<=", ">=", ">")
            bad = pa.table({c: pa.array([row.get(c), None], pa.float64()) for c in numbers} | {"flag": pa.nulls(2)})
            pq.write_table(bad, tmp_path / "bad.parquet")
            assert out_of_range(kind, tmp_path / "bad.parquet")[condition] == 1, condition


def test_the_declared_ranges_are_those_that_a_reader_relies_on() -> None:
    found = {
        name: set(broken_conditions(TABLES[name], TABLES[name].schema().names))
        for name in ("jobs", "predictions", "estimates")
    }
    assert found["jobs"] == {"runtime_s >= 0 or a flag", "procs >= 1 or a flag"}
    ends = ("runtime_s_lo95", "runtime_s_lo80", "runtime_s", "runtime_s_hi80", "runtime_s_hi95")
    assert {f"{low} <= {high}" for low, high in pairwise(ends)} <= found["predictions"]
    assert {"runtime_s > 0", "procs > 0", "speedup > 0", "efficiency > 0"} <= found["predictions"]
    levels = (10, 50, 80, 90, 95, 99)
    assert {f"{of}_q{low} <= {of}_q{high}" for of in ("runtime_s", "ratio") for low, high in pairwise(levels)} <= found[
        "estimates"
    ]
    assert {"runtime_s_q10 >= 0", "ratio_q10 >= 0", "n_jobs >= 0"} <= found["estimates"]


def test_a_file_that_is_no_table_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "jobs.parquet").write_text("no")
    with pytest.raises(InputError, match=r"jobs\.parquet: found a file that is not a Parquet table"):
        out_of_range(JOBS, tmp_path / "jobs.parquet")
    with pytest.raises(InputError, match=r"jobs\.parquet: found a file that is not a Parquet table"):
        entries_of({"jobs": tmp_path / "jobs.parquet"})


def test_without_a_manifest_there_is_nothing_to_compare_with() -> None:
    assert version_before(None, "oxbow") == (None, "no version was published before")
