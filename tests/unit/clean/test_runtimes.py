"""Failed starts and hangs: injected into simulated groups and found there; what cannot tell is silent, and counted."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pipeline.clean import clean
from pipeline.clean.job_arrays import JobArrays
from pipeline.clean.runtimes import hangs_above_s, similar_jobs, starts_below_s
from pipeline.schema import Flag
from pipeline.settings import CleanSettings, SiteSettings
from tests.rows import flags, jobs_of

MEDIANS_S = (200.0, 900.0, 4_000.0, 20_000.0)


def group_of(runtimes_s: Any, user: str = "ada", **same: Any) -> list[dict[str, Any]]:
    rows = []
    for place, runtime_s in enumerate(runtimes_s):
        start_s = 1_000_000 + 50_000 * place
        rows.append({"user": user, "submit_s": start_s, "start_s": start_s, "end_s": start_s + int(runtime_s)})
        rows[-1] |= {"runtime_s": float(runtime_s), "job_id": f"{user}-{place}", "source_line": place + 1} | same
    return rows


def ended(rows: list[dict[str, Any]], state: str) -> list[dict[str, Any]]:
    """The rows, the last of which ended in this state."""
    return [*rows[:-1], rows[-1] | {"state": state}]


def flags_of(rows: list[dict[str, Any]]) -> np.ndarray:
    return np.array(flags(clean(jobs_of(rows), CleanSettings())[0]), object)


def facts_of(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return dict(clean(jobs_of(rows), CleanSettings())[-1].facts)


def simulated(seed: int, log_sd: float, share: float = 0.03) -> tuple[list[dict[str, Any]], np.ndarray]:
    """Groups of lognormal runtimes, and which jobs were made failed starts (1) or hangs of 30 times (2).

    A hang ends because its user cancels it, or because it fails.
    """
    rng = np.random.default_rng(seed)
    rows, marks = [], []
    for k in range(24):
        runtimes_s = MEDIANS_S[k % 4] * np.exp(rng.normal(0, log_sd, rng.integers(40, 150)))
        mark = rng.choice(3, len(runtimes_s), p=[1 - 2 * share, share, share])
        runtimes_s = np.where(mark == 1, rng.integers(1, 11, len(mark)), np.where(mark == 2, 30, 1) * runtimes_s)
        group = group_of(np.ceil(runtimes_s), f"user{k}")
        for row, is_hang in zip(group, mark == 2, strict=True):
            row["state"] = str(rng.choice(["CANCELLED", "FAILED"])) if is_hang else "COMPLETED"
        rows += group
        marks.append(mark)
    return rows, np.concatenate(marks)


@pytest.mark.parametrize("log_sd", [0.05, 0.3, 0.6])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_failed_starts_and_hangs_are_found_and_clean_jobs_left_alone(seed: int, log_sd: float) -> None:
    rows, marks = simulated(seed, log_sd)
    found = flags_of(rows)
    starts_told, hangs_told = told(rows)
    assert np.mean(found[(marks == 1) & starts_told] == Flag.FAILED_START) >= 0.95
    assert np.mean(found[(marks == 2) & hangs_told] == Flag.HANG) >= 0.8
    assert min(starts_told.mean(), hangs_told.mean()) >= 0.4
    # What the rule costs: clean jobs it takes for outliers.
    assert np.mean(found[marks == 0] != None) <= 0.001  # noqa: E711


def told(rows: list[dict[str, Any]]) -> list[np.ndarray]:
    """Per job, whether its group says it tells failed starts, and hangs."""
    similar = similar_jobs(JobArrays(jobs_of(rows), SiteSettings()))
    return [~np.isnan(find(similar))[similar.group] for find in (starts_below_s, hangs_above_s)]


@pytest.mark.parametrize("seed", [4, 5])
def test_wide_groups_are_silent(seed: int) -> None:
    rows, _ = simulated(seed, 1.5, share=0.0)
    assert set(flags_of(rows)) == {None}
    assert not np.any(told(rows))


def test_groups_of_fewer_than_twenty_are_silent() -> None:
    rows = group_of([1_000.0] * 18 + [100_000.0])
    assert set(flags_of(rows)) == {None}
    assert set(flags_of(ended(group_of([1_000.0] * 20 + [100_000.0]), "CANCELLED"))) == {None, Flag.HANG}


def test_failed_jobs_are_judged_by_those_that_completed() -> None:
    rows = group_of([1_000.0] * 25) + group_of([5.0] * 40, state="FAILED")
    for place, row in enumerate(rows):
        row["job_id"] = f"{'done' if place < 25 else 'failed'}-{place}"
    assert list(flags_of(rows)) == [None] * 25 + [Flag.FAILED_START] * 40


def test_other_sizes_applications_and_users_are_other_groups() -> None:
    rows = group_of([1_000.0] * 25)
    for other in ({"procs": 8}, {"application": "other"}, {"user": "bob"}):
        assert set(flags_of([*rows, group_of([50_000.0])[0] | other | {"job_id": "x"}])) == {None}


@pytest.mark.parametrize("odd", [{"state": "TIMEOUT"}, {"state": "CANCELLED", "requested_s": 50_000.0}])
def test_a_job_killed_at_its_limit_is_no_hang(odd: dict[str, Any]) -> None:
    rows = ended(group_of([1_000.0] * 25 + [50_000.0]), "CANCELLED")
    assert flags_of(rows)[-1] == Flag.HANG
    rows[-1] |= odd
    assert flags_of(rows)[-1] is None


@pytest.mark.parametrize(
    ("end", "flag"),
    [
        ({"state": "CANCELLED"}, Flag.HANG),
        ({"state": "FAILED"}, Flag.HANG),
        ({"state": "CANCELLED", "requested_s": 80_000.0}, Flag.HANG),
        ({"state": "COMPLETED"}, None),
        ({"state": "COMPLETED", "requested_s": 40_000.0}, None),
        ({"state": "a word of the site"}, None),
        ({"state": None}, None),  # neither a state nor a request: nothing says that it ended abnormally
        ({"state": None, "requested_s": 80_000.0}, None),
        ({"state": None, "requested_s": 50_000.0}, Flag.HANG),
        ({"state": None, "requested_s": 40_000.0}, Flag.HANG),
    ],
)
def test_a_long_job_is_a_hang_only_if_it_ended_abnormally(end: dict[str, Any], flag: Flag | None) -> None:
    rows = group_of([1_000.0] * 25 + [50_000.0])
    rows[-1] |= end
    assert flags_of(rows)[-1] == flag
    assert set(flags_of(rows)[:-1]) == {None}


def test_a_job_of_seconds_that_is_still_running_is_no_failed_start() -> None:
    rows = group_of([1_000.0] * 25 + [5.0])
    assert flags_of(rows)[-1] == Flag.FAILED_START
    rows[-1] |= {"state": "RUNNING", "end_s": None}
    assert flags_of(rows)[-1] is None


def test_a_cancelled_job_is_no_hang_where_one_in_five_completes_after_as_long() -> None:
    assert set(flags_of(ended(group_of([1_000.0] * 40 + [50_000.0] * 10), "CANCELLED"))) == {None}
    assert flags_of(ended(group_of([1_000.0] * 40 + [50_000.0] * 4), "CANCELLED"))[-1] == Flag.HANG


def test_a_minute_where_others_take_seconds_is_no_hang() -> None:
    assert set(flags_of(ended(group_of([5.0] * 40 + [60.0] * 2), "CANCELLED"))) == {None}


def test_the_order_of_jobs_is_nothing() -> None:
    rows, _ = simulated(6, 0.3)
    order = np.random.default_rng(0).permutation(len(rows))
    shuffled = jobs_of(rows).take(pa.array(order))
    assert np.array(flags(clean(shuffled, CleanSettings())[0]), object).tolist() == flags_of(rows)[order].tolist()
