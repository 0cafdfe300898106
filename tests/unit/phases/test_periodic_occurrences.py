"""Occurrences of a phase whose times repeat with a period: evenly spaced samples must not meet the same one each time.

A real run showed it: every fourth occurrence of a phase took no time, and 25 samples of 400 met these alone.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.phases.occurrences import evenly_spaced, make_plan, representative
from pipeline.phases.phase_input import PhaseRules, PlanRules
from pipeline.phases.platforms import planned_times, predict_runtime
from pipeline.tables import PHASE_POINTS, PHASES

PERIOD_S = np.array([1e-5, 0.02, 0.02, 0.02])


def test_a_period_of_the_times_does_not_spoil_the_prediction() -> None:
    rng = np.random.default_rng(0)
    here_s, there_s = (np.tile(PERIOD_S, 100) + rng.uniform(0, 4e-4, 400) for _ in range(2))
    ends_s = np.cumsum(here_s)
    phases = PHASES.build(
        trace_id=["run"], phase_id=[0], level=[0], ticks=[1], events=[1.0], n_occurrences=[400],
        time_s=[here_s.sum()], share=[1.0], relative_sd=[here_s.std() / here_s.mean()],
        is_relevant=[True], repetitive=[True],
    )  # fmt: skip
    points = PHASE_POINTS.build(
        trace_id=["run"] * 400, phase_id=[0] * 400, occurrence=range(400), position=range(400), rank=[0] * 400,
        from_event=range(400), to_event=range(1, 401), t_start_s=ends_s - here_s, t_end_s=ends_s,
    )  # fmt: skip
    for samples in (4, 10, 20, 25, 50, 100):
        settings = PlanRules(budget=1e-12, least_samples=samples, warmup=0)
        times = planned_times(points, make_plan(phases, points, settings)[0], there_s, "again")
        found, _ = predict_runtime(phases, times, PhaseRules(), procs=1, measured_s=float(there_s.sum()))
        assert abs(found.column("error")[0].as_py()) < 0.05


def test_places_stay_even_where_the_times_have_no_period() -> None:
    times_s = np.random.default_rng(1).uniform(1, 1.1, 300)
    assert representative(times_s, 30).tolist() == evenly_spaced(300, 30).tolist()
    assert representative(np.ones(300), 30).tolist() == evenly_spaced(300, 30).tolist()


@given(st.lists(st.floats(0, 10), min_size=1, max_size=200), st.data())
def test_places_are_distinct_and_one_in_each_part(times: list[float], data: st.DataObject) -> None:
    n = data.draw(st.integers(1, len(times)))
    places = representative(np.array(times), n)
    ends = np.arange(n + 1) * len(times) // n
    is_in_parts = ((ends[:-1] <= places) & (places < ends[1:])).all()
    assert is_in_parts or places.tolist() == evenly_spaced(len(times), n).tolist()
    assert len(set(places.tolist())) == n and places.min() >= 0 and places.max() < len(times)


def test_places_are_no_further_from_the_mean_than_even_ones() -> None:
    rng = np.random.default_rng(2)
    for period in (2, 3, 4, 5, 8):
        times_s = np.tile(rng.uniform(0, 1, period), 400 // period)
        for n in (10, 16, 20, 25, 40):
            off, even = (abs(times_s[chosen(times_s, n)].mean() - times_s.mean()) for chosen in (representative, _even))
            assert off <= even + 1e-12
            assert off < 4 * times_s.std() / np.sqrt(n) or off == pytest.approx(0)


def _even(times_s: np.ndarray, n: int) -> np.ndarray:
    return evenly_spaced(len(times_s), n)
