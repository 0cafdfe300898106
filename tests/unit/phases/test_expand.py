"""The expansion of times to a runtime: exact where all is timed, by hand on a small case, and intervals that hold."""

import numpy as np
import pyarrow as pa
import pytest

from pipeline.phases.occurrences import NOT_REPETITIVE
from pipeline.phases.phase_input import ExpansionRules, PhaseRules
from pipeline.phases.platforms import RUN_IT_WHOLE, expand, predict_runtime
from pipeline.tables import PHASE_TIMES, PHASES

RATIO, REGRESSION = ExpansionRules(form="ratio"), ExpansionRules()
COUNT = ExpansionRules(form="count")


def phases_of(counts: list[int], times_s: list[float], relevant: list[bool]) -> pa.Table:
    n, whole_s = len(counts), sum(times_s)
    return PHASES.build(
        trace_id=["run"] * n, phase_id=list(range(n)), level=[0] * n, ticks=[1] * n, events=[1.0] * n,
        n_occurrences=counts, time_s=times_s, share=[one / whole_s for one in times_s], is_relevant=relevant,
        repetitive=[True] * n, relative_sd=[0.1] * n,
    )  # fmt: skip


def times_of(rows: list[tuple[int, int, float, float]], uses: str = "") -> pa.Table:
    """Rows of phase, occurrence, time, reference; `uses` has a t, w or c per row, t by default."""
    uses = uses or "t" * len(rows)
    return PHASE_TIMES.build(
        trace_id=["run"] * len(rows), phase_id=[row[0] for row in rows], platform=["there"] * len(rows),
        occurrence=[row[1] for row in rows], time_s=[row[2] for row in rows], reference_s=[row[3] for row in rows],
        is_warmup=[use == "w" for use in uses], is_control=[use == "c" for use in uses],
    )  # fmt: skip


def interval(found: dict[str, float | None], level: int | str) -> tuple[float | None, float | None]:
    return found[f"runtime_s_lo{level}"], found[f"runtime_s_hi{level}"]


SMALL = phases_of([10, 4, 1], [20.0, 60.0, 20.0], [True, True, False])
TIMED = times_of(
    [(0, 1, 3.0, 2.0), (0, 5, 5.0, 2.0), (1, 0, 14.0, 14.0), (1, 2, 16.0, 16.0), (0, 0, 9.0, 2.0), (1, 1, 7.0, 10.0)],
    "ttttwc",
)


def test_the_ratio_form_by_hand() -> None:
    found = expand(SMALL, TIMED, RATIO)
    # Phase 0: 20 s * 8 / 4 = 40 s; phase 1: 60 s * 30 / 30 = 60 s; both are 80% of the time.
    assert found["coverage"] == pytest.approx(0.8)
    assert found["runtime_s"] == pytest.approx(125.0)
    assert found["set_s"] == pytest.approx(47.0)
    assert found["control_s"] == pytest.approx(70.0)
    assert found["control_factor_s"] == pytest.approx(100 * 38 / 34)


def test_the_count_form_is_the_paper_s_equation() -> None:
    whole = phases_of([10, 4], [20.0, 60.0], [True, True])
    assert expand(whole, TIMED, COUNT)["runtime_s"] == pytest.approx(10 * 4.0 + 4 * 15.0)
    # The phases that were timed are 80% of the time.
    assert expand(SMALL, TIMED, COUNT)["runtime_s"] == pytest.approx((10 * 4.0 + 4 * 15.0) / 0.8)


def test_a_run_timed_whole_is_exact() -> None:
    phases = phases_of([3, 2], [6.0, 10.0], [True, True])
    rows = [(0, 0, 1.0, 1.5), (0, 1, 2.0, 2.5), (0, 2, 4.0, 2.0), (1, 0, 8.0, 4.0), (1, 1, 9.0, 6.0)]
    for form in (RATIO, COUNT, REGRESSION):
        found = expand(phases, times_of(rows), form)
        assert found["runtime_s"] == pytest.approx(24.0)
        assert interval(found, 95) == pytest.approx((24.0, 24.0))


def test_one_time_of_a_phase_takes_its_spread_from_the_others_or_has_no_interval() -> None:
    phases = phases_of([10, 10], [20.0, 20.0], [True, True])
    rows = [(0, 1, 3.0, 2.0), (0, 5, 5.0, 2.0), (1, 0, 2.0, 2.0)]
    low_s, high_s = interval(expand(phases, times_of(rows), RATIO), 95)
    assert low_s is not None and high_s > low_s
    alone = expand(phases_of([10], [20.0], [True]), times_of([(0, 1, 3.0, 2.0)]), RATIO)
    assert interval(alone, 95) == (None, None) and alone["runtime_s"] == pytest.approx(30.0)


def test_nothing_timed_gives_no_number() -> None:
    found = expand(SMALL, times_of([(2, 0, 1.0, 1.0)]), RATIO)
    assert (found["runtime_s"], interval(found, 80), found["coverage"]) == (None, (None, None), 0.0)


def spread_over(here: list[np.ndarray], there: list[np.ndarray], n: int) -> tuple[pa.Table, pa.Table]:
    """PHASES of these times here, and PHASE_TIMES of n evenly spaced occurrences of each phase, and of as many of the
    whole run, whose phases take turns."""
    phases = phases_of([len(one) for one in here], [float(one.sum()) for one in here], [True] * len(here))
    n_turns = len(here[0])
    timed = [(phase, turn) for phase in range(len(here)) for turn in range(n_turns // (2 * n), n_turns, n_turns // n)]
    places = ((np.arange(len(timed)) + 0.5) * len(here) * n_turns / len(timed)).astype(int)
    even = [(int(place) % len(here), int(place) // len(here)) for place in places]
    rows = [(phase, turn, float(there[phase][turn]), float(here[phase][turn])) for phase, turn in timed + even]
    return phases, times_of(rows, "t" * len(timed) + "c" * len(even))


@pytest.mark.parametrize(("speeds", "method"), [((1.3,) * 8, "even"), ((1.0, 3.0, 0.3, 2.0) * 2, "phases")])
def test_an_even_sample_answers_where_its_interval_is_much_narrower(speeds: tuple[float, ...], method: str) -> None:
    random = np.random.default_rng(3)
    here = [random.gamma(4, 0.25, 400) * (1 + phase) for phase in range(8)]
    there = [one * speed * random.gamma(2500, 1 / 2500, 400) for one, speed in zip(here, speeds, strict=True)]
    phases, times = spread_over(here, there, 3)
    true_s = sum(float(one.sum()) for one in there)
    table, report = predict_runtime(phases, times, PhaseRules(), procs=1, measured_s=true_s)
    (row,) = table.to_pylist()
    assert row["method"] == method and abs(row["error"]) < 0.1
    assert (row["runtime_s"] == row["control_s"]) is (method == "even")
    assert [note.startswith("An evenly spaced sample") for note in report.notes] == [True] * (method == "even")
    used = times.column("is_control").to_numpy(zero_copy_only=False) <= (method == "even")
    assert row["set_s"] == pytest.approx(times.column("time_s").to_numpy()[used].sum())
    alone = expand(phases, times, ExpansionRules(even_width=0.0))
    assert alone["method"] == "phases" and alone["runtime_s"] == alone["phases_s"]
    few = phases.set_column(
        phases.column_names.index("n_occurrences"), phases.schema.field("n_occurrences"), [[20] * 8]
    )
    whole, said = predict_runtime(few, times, PhaseRules(), procs=1)
    assert whole.column("method").to_pylist() == ["phases"] and said.notes == (RUN_IT_WHOLE,)


def test_a_run_that_is_not_repetitive_has_the_word_beside_the_number() -> None:
    table, report = predict_runtime(SMALL, TIMED, PhaseRules(), procs=4, measured_s=100.0)
    (row,) = table.to_pylist()
    assert row["status"] == NOT_REPETITIVE
    assert report.notes == (RUN_IT_WHOLE,)
    assert row["error"] == pytest.approx(0.25)


def test_the_regression_form_by_hand() -> None:
    # The slope is 0.5 with a ratio of 10 / 12; the whole phase's mean is 5 and the sample's 4.
    phases = phases_of([10], [50.0], [True])
    rows = [(0, 1, 3.0, 3.0), (0, 4, 3.0, 4.0), (0, 8, 4.0, 5.0)]
    assert expand(phases, times_of(rows), REGRESSION)["runtime_s"] == pytest.approx(10 * (10 / 3 + 0.5))


@pytest.mark.parametrize(("rows", "same"), [([1.0, 2.0, 3.0], RATIO), ([3.0, 2.0, 1.0], COUNT)])
def test_the_regression_form_lies_between_the_others(rows: list[float], same: ExpansionRules) -> None:
    phases = phases_of([10], [50.0], [True])
    times = times_of([(0, place, time_s, place + 1.5) for place, time_s in enumerate(rows)])
    assert expand(phases, times, REGRESSION)["runtime_s"] == expand(phases, times, same)["runtime_s"]


@pytest.mark.parametrize(("common", "own"), [(0.0, 0.3), (0.3, 0.05), (0.3, 0.3), (1.0, 0.05)])
def test_the_regression_form_is_near_the_better_of_the_others(common: float, own: float) -> None:
    random = np.random.default_rng(7)
    squares = {form.form: 0.0 for form in (RATIO, COUNT, REGRESSION)}
    for _ in range(60):
        work = np.exp(common * random.standard_normal(200))
        here, there = (work * np.exp(own * random.standard_normal(200)) for _ in range(2))
        rows = [(0, place, float(there[place]), float(here[place])) for place in range(10, 200, 20)]
        phases, times = phases_of([200], [float(here.sum())], [True]), times_of(rows)
        for form in (RATIO, COUNT, REGRESSION):
            found = expand(phases, times, form)
            squares[form.form] += ((found["runtime_s"] or 0.0) / there.sum() - 1) ** 2
    best = min(squares["ratio"], squares["count"])
    assert squares["regression"] <= 1.25 * best


@pytest.mark.parametrize("form", [RATIO, REGRESSION], ids=lambda form: form.form)
def test_intervals_hold_as_often_as_they_say(form: ExpansionRules) -> None:
    random = np.random.default_rng(5)
    counts, factors = [400, 60, 1], [2.0, 0.7, 1.3]
    held = {"80": 0, "95": 0}
    n_runs = 250
    for _ in range(n_runs):
        here = [random.gamma(25, 0.04, n) * scale for n, scale in zip(counts, (1, 5, 20), strict=True)]
        there = [one * factor * random.gamma(50, 0.02, len(one)) for one, factor in zip(here, factors, strict=True)]
        rows = [
            (phase, int(place), float(there[phase][place]), float(here[phase][place]))
            for phase, n in enumerate((12, 8, 1))
            for place in random.choice(counts[phase], n, replace=False)
        ]
        found = expand(phases_of(counts, [float(one.sum()) for one in here], [True] * 3), times_of(rows), form)
        true_s = sum(float(one.sum()) for one in there)
        for level in held:
            low_s, high_s = interval(found, level)
            held[level] += low_s <= true_s <= high_s
    assert 0.74 < held["80"] / n_runs < 0.87
    assert 0.91 < held["95"] / n_runs < 0.985
