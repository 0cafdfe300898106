"""The backtest: who is scored, what stands in, figures by hand, and the splits."""

import numpy as np
import pyarrow as pa
import pytest

from pipeline.estimate.history import History
from pipeline.evaluate import backtest
from pipeline.evaluate.backtest import (
    TRAIN_SHARE,
    Way,
    fallback_quantiles,
    past_of,
    running_quantiles,
    size_classes,
    size_name,
)
from pipeline.evaluate.methods import Estimator
from pipeline.settings import RunSettings, SiteSettings
from pipeline.tables import BACKTEST
from tests.rows import jobs_of
from tests.unit.evaluate.estimators import DAY_S, last_two, log, nobody, oracle, request

Row = dict[str, object]


def tried(
    jobs: pa.Table, settings: RunSettings | None = None, train_share: float = TRAIN_SHARE, **estimators: Estimator
) -> list[Row]:
    table, report = backtest(jobs, settings or RunSettings(), estimators, train_share=train_share)
    assert report.seen.rows == jobs.num_rows
    return BACKTEST.check(table).to_pylist()


def whole(rows: list[Row]) -> dict[object, Row]:
    return {row["estimator"]: row for row in rows if row["part"] == "all"}


def test_figures_by_hand() -> None:
    """Three jobs train; 100, 200 and 400 s are scored against requests of 200 s."""
    times = (10, 10, 10, 100, 200, 400)
    rows = [
        {"submit_s": 1_000 * n, "runtime_s": float(t), "end_s": 1_000 * n + t, "requested_s": 200.0}
        for n, t in enumerate(times)
    ]
    found = whole(tried(jobs_of(rows), train_share=0.5, request=request))
    row = found["request"]
    assert (row["n_jobs"], row["n_fallback"], row["n_unanswered"]) == (3, 0, 0)
    assert row["mae_s"] == pytest.approx(100) and row["mae_over_mean"] == pytest.approx(300 / 700)
    assert row["median_abs_pct"] == pytest.approx(50) and row["share_under"] == pytest.approx(1 / 3)
    assert row["coverage_q95"] == pytest.approx(2 / 3) and row["coverage_80"] == pytest.approx(1 / 3)
    assert row["pinball_q90_s"] == pytest.approx((0.1 * 100 + 0 + 0.9 * 200) / 3) and row["q95_over_request"] == 1


def test_the_first_third_by_submit_is_learnt_from_and_the_rest_scored() -> None:
    jobs = log(300)
    _, report = backtest(jobs, RunSettings(), {"request": request})
    assert (report.set_aside["learnt_from"].rows, report.kept.rows) == (100, 200)
    shuffled = jobs.take(pa.array(np.random.default_rng(1).permutation(300)))
    assert tried(jobs, request=request) == tried(shuffled, request=request)


def test_all_methods_are_scored_on_the_same_jobs_and_what_stood_in_is_counted() -> None:
    """Without an answer the request stands in: the method that has none is as good as the request."""
    found = whole(tried(log(), request=request, last_two=last_two, nobody=nobody, oracle=oracle))
    assert {row["n_jobs"] for row in found.values()} == {200}
    assert found["nobody"]["n_fallback"] == 200 and found["oracle"]["n_fallback"] == 0
    assert found["nobody"]["mae_s"] == found["request"]["mae_s"] and found["oracle"]["mae_s"] == 0
    assert found["last_two"]["mae_s"] < found["request"]["mae_s"]


def test_a_quantile_a_method_never_gives_is_not_scored() -> None:
    found = whole(tried(log(), last_two=last_two))["last_two"]
    missing = [name for name, value in found.items() if value is None]
    assert {"coverage_80", "coverage_q95", "pinball_q90_s", "q95_over_request"} <= set(missing)
    assert found["coverage_q50"] is not None


def test_a_log_without_requests_falls_back_on_its_own_past() -> None:
    jobs = log(requested_s=None)
    found = whole(tried(jobs, nobody=nobody, request=request))
    assert found["nobody"]["mae_s"] == found["request"]["mae_s"] and found["nobody"]["n_unanswered"] == 0
    assert found["nobody"]["q95_over_request"] is None
    assert 0.6 < found["nobody"]["coverage_80"] < 0.95


def test_running_quantiles_are_those_of_jobs_that_had_ended() -> None:
    past = past_of(log(80), RunSettings())
    found = running_quantiles(past)
    for job in range(len(past)):
        known = np.sort(past.runtime_s[past.end_s <= past.submit_s[job]])
        expected = [known[max(0, int(np.ceil(q * len(known))) - 1)] if len(known) else np.nan for q in
                    (0.10, 0.50, 0.80, 0.90, 0.95, 0.99)]  # fmt: skip
        np.testing.assert_array_equal(found[job], expected)


def test_what_stands_in_never_leaves_the_request() -> None:
    past = past_of(log(80), RunSettings())
    assert (fallback_quantiles(past)[5:, 0] <= past.requested_s[5:]).all()
    assert (fallback_quantiles(past)[:, 1:] == past.requested_s[:, None]).all()


def test_parts_add_up_to_the_whole() -> None:
    rows = tried(log(), request=request)
    for part in ("month", "size"):
        assert sum(row["n_jobs"] for row in rows if row["part"] == part) == 200
    assert [row["part_value"] for row in rows if row["part"] == "size"] == ["1", "2", "3-4", "5-8", "9-16"]


def test_months_are_the_site_s() -> None:
    """The last evening of January in London is February in Tokyo."""
    rows = [{"submit_s": 31 * DAY_S - 3600, "end_s": 31 * DAY_S}] * 3
    for zone, month in (("UTC", "1970-01"), ("Asia/Tokyo", "1970-02")):
        settings = RunSettings(site=SiteSettings(timezone=zone))
        found = [row["part_value"] for row in tried(jobs_of(rows), settings, nobody=nobody) if row["part"] == "month"]
        assert found == [month]


def test_the_fortnight_covered_worst_is_found() -> None:
    """Half-way through, everybody's jobs take ten times as long for two weeks."""
    jobs = [
        {"submit_s": n * 3600, "end_s": n * 3600 + 60, "requested_s": 100.0,
         "runtime_s": 1000.0 if 28 * 24 <= n < 42 * 24 else 60.0}
        for n in range(70 * 24)
    ]  # fmt: skip
    found = [row for row in tried(jobs_of(jobs), train_share=0.2, request=request) if row["part"] == "fortnight_q95"]
    assert [(row["part_value"], row["coverage_q95"], row["n_jobs"]) for row in found] == [("1970-01-29", 0.0, 336)]


def test_too_few_jobs_make_no_fortnight_and_no_jobs_no_row() -> None:
    assert not [row for row in tried(log(50), request=request) if "fortnight" in str(row["part"])]
    assert tried(jobs_of([{"runtime_s": 0.0}]), request=request) == []


def test_sizes_fall_into_powers_of_two() -> None:
    procs = np.array([1, 2, 3, 4, 5, 8, 9, 1024, 1025.0])
    names = [size_name(size) for size in size_classes(procs)]
    assert names == ["1", "2", "3-4", "3-4", "5-8", "5-8", "9-16", "513-1024", "1025-2048"]


def test_a_stale_estimate_knows_nothing_after_its_midnight() -> None:
    """Two jobs a day: at the midnight before it the jobs of earlier days had ended, not the one of this morning."""
    rows = [
        {"submit_s": day * DAY_S + hour * 3600, "end_s": day * DAY_S + hour * 3600 + 60, "runtime_s": 60.0 + day}
        for day in range(20)
        for hour in (3, 9)
    ]

    def latest(past: History) -> np.ndarray:
        answers = [past.runtime_s[past.by_end[n - 1]] if n else np.nan for n in past.ended]
        return np.repeat(np.array(answers)[:, None], 6, axis=1)

    for stale_s, late in ((None, 0), (0.0, 1), (DAY_S, 2), (7 * DAY_S, 8)):
        table, _ = backtest(jobs_of(rows), RunSettings(), {"latest": latest}, way=Way(stale_s))
        row = next(row for row in table.to_pylist() if row["part"] == "all")
        # Of two jobs a day the live estimate of the second knows the first.
        expected = 0.5 if stale_s is None else float(late)
        assert row["mae_s"] == pytest.approx(expected, abs=0.05)
        assert row["stale_days"] == (None if stale_s is None else stale_s / DAY_S)


def test_flagged_jobs_are_scored_whether_they_are_learnt_from_or_not() -> None:
    jobs = log(300, flag="flurry")
    for without, fallbacks in ((False, 0), (True, 200)):
        table, report = backtest(jobs, RunSettings(), {"last_two": last_two}, way=Way(None, without))
        row = next(row for row in table.to_pylist() if row["part"] == "all")
        assert (row["n_jobs"], row["n_fallback"]) == (200, fallbacks)
        assert row["learnt_from"] == ("kept" if without else "all") and report.kept.rows == 200
