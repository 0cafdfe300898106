"""PREDICTIONS look like their runs: levels, intervals and words of reliability on simulated logs."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pipeline.arrays import Array, Floats
from pipeline.report import Report
from pipeline.scaling.group_runs import MOST_SPAN, predict
from pipeline.tables import GROUPED_JOBS, PREDICTIONS

DAY_S = 86_400.0
SIZES = np.array([1, 2, 4, 8, 16])


def log_of(
    runtime_s: Floats, procs: Array, submit_s: Array, group: Sequence[str] | None = None,
    user: Sequence[str] | None = None, is_lower_bound: Sequence[bool] | None = None,
) -> pa.Table:  # fmt: skip
    n = len(runtime_s)
    names = np.array(group or ["g"] * n, object)
    order = np.argsort(names, kind="stable")
    return GROUPED_JOBS.build(
        group_id=names[order].tolist(), site=["s"] * n, user=np.array(user or ["ada"] * n, object)[order].tolist(),
        requested_procs=np.asarray(procs, np.int64)[order], submit_s=np.asarray(submit_s, np.int64)[order],
        runtime_s=np.asarray(runtime_s, np.float64)[order],
        is_lower_bound=np.array(is_lower_bound or [False] * n)[order].tolist(),
    )  # fmt: skip


def curves_of(
    median_s: Floats, spread: float, procs: Array = SIZES, largest: int = 16, group: str = "g", code: str = "ok"
) -> pa.Table:
    """What a law says: medians, ends of 80% `spread` times away, of 95% half as far again (log); perfect speed-up."""
    n = len(procs)
    return PREDICTIONS.build(
        group_id=[group] * n, axis=["procs"] * n, procs=np.asarray(procs, np.int64), runtime_s=median_s,
        runtime_s_lo80=median_s / spread, runtime_s_hi80=median_s * spread, runtime_s_lo95=median_s / spread**1.5,
        runtime_s_hi95=median_s * spread**1.5, speedup=np.asarray(procs, np.float64),
        is_extrapolated=(np.asarray(procs) > largest).tolist(), reliability=[code] * n, method=["average"] * n,
        run_id=["r"] * n,
    )  # fmt: skip


def simulated(n: int = 3_000, sd: float = 0.2, seed: int = 1) -> pa.Table:
    """Runs of one group by a law of 3,600 s over processors, at irregular times over two years."""
    draw = np.random.default_rng(seed)
    procs = draw.choice(SIZES, n)
    submit_s = np.sort(draw.uniform(0, 730 * DAY_S, n))
    return log_of(3_600 / procs * np.exp(draw.normal(0, sd, n)), procs, submit_s)


def predicted(jobs: pa.Table, curves: pa.Table, as_of_s: float = 731 * DAY_S) -> tuple[list[dict[str, Any]], Report]:
    table, report = predict(curves, jobs, "r", as_of_s)
    return table.to_pylist(), report


def test_a_known_law_with_known_scatter_is_recovered() -> None:
    # The law is wrong by a factor of 3: what ran counts.
    rows, report = predicted(simulated(), curves_of(3 * 3_600 / SIZES, 2.0))
    for row, procs in zip(rows, SIZES, strict=True):
        assert row["runtime_s"] == pytest.approx(3_600 / procs, rel=0.06)
        assert np.log(row["runtime_s_hi80"] / row["runtime_s_lo80"]) == pytest.approx(2 * 1.2816 * 0.2, rel=0.2)
        assert np.log(row["runtime_s_hi95"] / row["runtime_s_lo95"]) == pytest.approx(2 * 1.96 * 0.2, rel=0.25)
        assert (row["reliability"], row["speedup"]) == ("ok", pytest.approx(procs, rel=0.1))
        assert row["runtime_s"] * row["speedup"] == pytest.approx(rows[0]["runtime_s"])
    assert report.facts["predictions_ok"] == len(SIZES)


def test_a_count_that_never_ran_is_answered_by_a_narrow_law_with_the_scatter_of_the_runs() -> None:
    rows, _ = predicted(simulated(), curves_of(3_600 / np.array([16, 32, 256]), 1.1, np.array([16, 32, 256])))
    assert [row["reliability"] for row in rows] == ["ok", "far", "far"]
    assert rows[2]["runtime_s"] == pytest.approx(3_600 / 256, rel=0.1)
    assert np.log(rows[2]["runtime_s_hi80"] / rows[2]["runtime_s_lo80"]) > 2 * 1.2816 * 0.2 * 0.8


def test_a_count_that_never_ran_stays_within_what_the_runs_of_the_group_allow() -> None:
    """A law that knows nothing: linear speed-up from the counts that ran, and never longer than on the slowest."""
    jobs = simulated().filter(pc.is_in(pc.field("requested_procs"), pa.array([4, 8])))
    counts = np.array([1, 4, 8, 16, 64])
    rows, _ = predicted(jobs, curves_of(3_600 / counts, 100.0, counts))
    one, four, eight, *larger = rows
    assert one["runtime_s_hi95"] == pytest.approx(4 * four["runtime_s_hi95"])
    assert one["runtime_s_lo95"] == pytest.approx(eight["runtime_s_lo95"])
    for row in larger:
        assert row["runtime_s_hi80"] == pytest.approx(four["runtime_s_hi80"])
        assert row["runtime_s_lo95"] == pytest.approx(eight["runtime_s_lo95"] * 8 / row["procs"], rel=0.05)


def test_no_interval_of_runs_exceeds_the_shortest_and_the_longest_run_of_a_long_log() -> None:
    """Campaigns of which each is shorter or longer than those before: the next one may be anything."""
    times, levels_s = np.arange(0, 700 * DAY_S, 70 * DAY_S), 1_000 * 4.0 ** np.array([0, 1, -1, 2, -2, 3, -3, 4, -4, 5])
    parts, rows_of_law = [simulated()], [curves_of(3_600 / SIZES, 1.5)]
    for name in ("h", "i", "j"):
        parts.append(log_of(levels_s, np.ones(10), times, group=[name] * 10))
        rows_of_law.append(curves_of(np.array([1_000.0]), 1.5, np.array([1]), group=name))
    rows, _ = predicted(pa.concat_tables(parts).unify_dictionaries(), pa.concat_tables(rows_of_law))
    low_s, high_s = (rows[-1][f"runtime_s_{end}95"] for end in ("lo", "hi"))
    assert low_s == pytest.approx(levels_s.min()) and high_s == pytest.approx(levels_s.max())


def test_stopped_runs_are_not_left_out() -> None:
    draw = np.random.default_rng(2)
    failed_s = np.exp(draw.normal(np.log(218), 0.5, 64))
    runtime_s = np.concatenate([failed_s, np.full(1_117, 3_492.0)])
    is_stopped = np.arange(1_181) >= 64
    order = draw.permutation(1_181)
    submit_s = np.sort(draw.uniform(0, 300 * DAY_S, 1_181))
    users = [f"u{n}" for n in range(1_181)]
    jobs = log_of(runtime_s[order], np.ones(1_181), submit_s, user=users, is_lower_bound=is_stopped[order].tolist())
    (row,), _ = predicted(jobs, curves_of(np.array([218.0]), 2.0, np.array([1])), 301 * DAY_S)
    assert row["runtime_s"] == pytest.approx(3_492, rel=0.02)
    assert row["runtime_s_hi80"] == pytest.approx(3_492, rel=0.1)


def test_runs_that_were_stopped_early_raise_the_median_of_longer_ones() -> None:
    draw = np.random.default_rng(6)
    full_s = np.exp(draw.normal(np.log(5_000), 0.4, 600))
    limit_s = draw.choice([2_500.0, 50_000.0], 600)
    jobs = log_of(
        np.minimum(full_s, limit_s), np.ones(600), np.sort(draw.uniform(0, 150 * DAY_S, 600)),
        is_lower_bound=(full_s > limit_s).tolist(),
    )  # fmt: skip
    (row,), _ = predicted(jobs, curves_of(np.array([5_000.0]), 2.0, np.array([1])), 151 * DAY_S)
    # The plain median of such a log is 2,500 s.
    assert row["runtime_s"] == pytest.approx(5_000, rel=0.15)


def test_the_newest_half_year_counts_most() -> None:
    submit_s = np.linspace(0, 730 * DAY_S, 2_000)
    draw = np.random.default_rng(3)
    level = np.where(submit_s < 560 * DAY_S, 10_000.0, 100.0)
    jobs = log_of(level * np.exp(draw.normal(0, 0.1, 2_000)), np.ones(2_000), submit_s)
    (row,), _ = predicted(jobs, curves_of(np.array([5_000.0]), 4.0, np.array([1])))
    assert row["runtime_s"] == pytest.approx(100, rel=0.1)


@pytest.mark.parametrize("sd", [0.3, 1.5])
def test_intervals_contain_their_share_of_the_next_week(sd: float) -> None:
    draw, n = np.random.default_rng(4), 12_000
    users = [f"group{number:02d}" for number in draw.integers(0, 25, n)]
    submit_s = np.sort(draw.uniform(0, 400 * DAY_S, n))
    # Levels of groups wander, and the tails are heavier than normal.
    number = np.array([int(name[-2:]) for name in users])
    drift = 0.6 * np.sin(submit_s / (40 * DAY_S) + number)
    runtime_s = np.exp(6 + 0.1 * number + drift + sd * draw.standard_t(5, n))
    jobs = log_of(runtime_s, np.ones(n), submit_s, group=users)
    order = np.argsort(np.array(users, object), kind="stable")
    names = sorted(set(users))
    curves = pa.concat_tables([curves_of(np.array([400.0]), 3.0, np.array([1]), group=name) for name in names])
    in_80, in_95 = [], []
    for night in (300, 320, 340, 360, 380):
        table, _ = predict(curves, jobs, "r", night * DAY_S)
        ends = {name: [row[f"runtime_s_{end}"] for end in ("lo95", "lo80", "hi80", "hi95")]
                for name, row in zip(names, table.to_pylist(), strict=True)}  # fmt: skip
        for job in order[(submit_s[order] > night * DAY_S) & (submit_s[order] <= (night + 7) * DAY_S)]:
            low95, low80, high80, high95 = ends[users[job]]
            in_80.append(low80 <= runtime_s[job] <= high80)
            in_95.append(low95 <= runtime_s[job] <= high95)
    assert 0.76 < np.mean(in_80) < 0.84 and 0.92 < np.mean(in_95) < 0.98


def test_words_tell_kept_narrow_wide_and_few_rows_apart_and_the_report_counts_them() -> None:
    draw, parts, curves = np.random.default_rng(5), [], []
    for name, n, sd in (("few", 12, 0.1), ("narrow", 800, 0.1), ("wide", 800, 1.0)):
        runtime_s = 1_000 * np.exp(draw.normal(0, sd, n))
        parts.append(log_of(runtime_s, np.ones(n), np.sort(draw.uniform(0, 730 * DAY_S, n)), group=[name] * n))
        curves.append(curves_of(np.array([1_000.0]), 3.0, np.array([1]), group=name))
    curves.append(curves_of(np.array([10.0, 5.0]), 3.0, np.array([2, 64]), group="wide", code="high_error"))
    rows, report = predicted(pa.concat_tables(parts), pa.concat_tables(curves))
    words = [row["reliability"] for row in rows]
    assert words == ["few", "ok", "wide", "broken", "broken"]
    for row in rows[1:3]:
        assert 0.7 <= row["kept_share"] <= 0.9 and row["n_later"] > 700
        assert (row["runtime_s_hi80"] <= MOST_SPAN * row["runtime_s_lo80"]) == (row["reliability"] == "ok")
    facts: dict[str, Any] = dict(report.facts)
    assert sum(facts[f"predictions_{word}"] for word in ("ok", "wide", "few", "missed", "far", "broken")) == 5
    assert facts["past_jobs"] > 1_500 and 0.75 < facts["in_80_later"] < 0.85
    n = rows[0]["n_later"]
    assert (
        rows[0]["advice"] == f"Too few later runs have been compared with this row to judge it: {n} of the 20 needed."
    )


def test_a_row_of_runs_of_one_length_is_kept_although_its_interval_contains_all_of_them() -> None:
    draw, n = np.random.default_rng(7), 400
    jobs = log_of(600 + draw.integers(0, 3, n), np.ones(n), np.sort(draw.uniform(0, 730 * DAY_S, n)))
    (row,), _ = predicted(jobs, curves_of(np.array([600.0]), 3.0, np.array([1])))
    assert row["kept_share"] > 0.9 and row["runtime_s_hi80"] < 1.1 * row["runtime_s_lo80"]
    assert (row["reliability"], row["advice"]) == ("ok", None)


def test_what_ran_in_one_week_is_wide_where_the_next_campaigns_differ() -> None:
    draw, parts, rows_of_law = np.random.default_rng(8), [], []

    def campaigns(name: str, weeks: Sequence[int], sd: float) -> None:
        times = np.concatenate([week * 7 * DAY_S + np.sort(draw.uniform(0, 6 * DAY_S, 30)) for week in weeks])
        level = np.repeat(draw.normal(0, sd, len(weeks)), 30)
        runtime_s = 1_000 * np.exp(level + draw.normal(0, 0.1, len(times)))
        parts.append(log_of(runtime_s, np.ones(len(times)), times, group=[name] * len(times)))
        rows_of_law.append(curves_of(np.array([1_000.0]), 3.0, np.array([1]), group=name))

    for number in range(30):
        campaigns(f"differs{number:02d}", (2 * number, 2 * number + 20), 2.0)
    campaigns("once", (90,), 0.1)
    campaigns("steady", range(70, 91), 0.1)
    rows, _ = predicted(pa.concat_tables(parts), pa.concat_tables(rows_of_law), 91 * 7 * DAY_S)
    spans = {row["group_id"]: row["runtime_s_hi80"] / row["runtime_s_lo80"] for row in rows}
    assert spans["steady"] < 2 and spans["once"] > 3 * spans["steady"]


def test_what_ended_later_changes_nothing() -> None:
    jobs, curves = simulated(), curves_of(3_600 / SIZES, 1.5)
    past = jobs.filter(pc.less(pc.add(jobs.column("submit_s"), jobs.column("runtime_s")), 500 * DAY_S))
    assert predicted(jobs, curves, 500 * DAY_S)[0] == predicted(past, curves, 500 * DAY_S)[0]


def test_the_same_input_gives_the_same_table() -> None:
    jobs, curves = simulated(), curves_of(3_600 / SIZES, 1.5)
    assert predicted(jobs, curves) == predicted(jobs, curves)


def test_a_log_without_runs_is_answered_by_its_laws() -> None:
    rows, report = predicted(GROUPED_JOBS.empty(), curves_of(3_600 / SIZES, 1.5))
    assert [row["runtime_s"] for row in rows] == pytest.approx((3_600 / SIZES).tolist())
    assert report.facts["in_80_later"] is None
    table, _ = predict(PREDICTIONS.empty(), GROUPED_JOBS.empty(), "r")
    assert table.num_rows == 0
