"""Kaplan & Meier's curve: published answers, and the plain quantile where nothing is a bound."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.group.observations import survival_quantiles

SHARES = (0.0, 0.1, 0.25, 0.5, 0.8, 0.9, 0.95, 1.0)
runs = st.lists(st.tuples(st.integers(1, 30).map(float), st.booleans()), min_size=1, max_size=25)


def quantiles(pairs: list[tuple[float, bool]], shares: tuple[float, ...] = SHARES) -> np.ndarray:
    runtime_s = np.array([t for t, _ in pairs])
    is_bound = np.array([bound for _, bound in pairs])
    order = np.lexsort((is_bound, runtime_s))
    starts, counts = np.array([0]), np.array([len(pairs)])
    return survival_quantiles(runtime_s[order], is_bound[order], starts, counts, np.array(shares))[:, 0]


def ended(*times: float) -> list[tuple[float, bool]]:
    return [(t, False) for t in times]


def bounds(*times: float) -> list[tuple[float, bool]]:
    return [(t, True) for t in times]


def assert_steps(pairs: list[tuple[float, bool]], n: int, survival: dict[float, float], last: float) -> None:
    """Each time stands at the share the published curve had lost before it, n/(n - 1) of it; `last` ends the curve."""
    before = [1.0, *survival.values()][:-1]
    shares = tuple((1 - s) * n / (n - 1) for s in before)
    assert quantiles(pairs, shares) == pytest.approx(list(survival), abs=0.08)
    reached = quantiles(pairs, (1 - last - 0.001, 1 - last + 0.001))
    assert reached[0] >= max(survival) and np.isnan(reached[1])


def test_remission_of_leukemia_on_6_mp() -> None:
    """Freireich et al. 1963, 21 patients, 12 of them censored, weeks: the curve every textbook prints."""
    weeks = ended(6, 6, 6, 7, 10, 13, 16, 22, 23) + bounds(6, 9, 10, 11, 17, 19, 20, 25, 32, 32, 34, 35)
    curve = {6.0: 0.8571, 7.0: 0.8067, 10.0: 0.7529, 13.0: 0.6902, 16.0: 0.6275, 22.0: 0.5378, 23.0: 0.4482}
    assert_steps(weeks, 21, curve, 0.4482)
    # Textbooks read the median off the step at 23; interpolated it lies between that and the longest bound.
    assert 23 <= quantiles(weeks, (0.5,))[0] < 35


def test_remission_of_leukemia_on_placebo() -> None:
    """The other arm, nobody censored: median 8 weeks."""
    weeks = ended(1, 1, 2, 2, 3, 4, 4, 5, 5, 8, 8, 8, 8, 11, 11, 12, 12, 15, 17, 22, 23)
    assert quantiles(weeks, (0.5,)).tolist() == [8.0]


def test_maintained_acute_myelogenous_leukemia() -> None:
    """Miller 1981, Survival Analysis, chapter 3: 11 patients, 4 of them censored, weeks."""
    weeks = ended(9, 13, 18, 23, 31, 34, 48) + bounds(13, 28, 45, 161)
    curve = {9.0: 0.9091, 13.0: 0.8182, 18.0: 0.7159, 23.0: 0.6136, 31.0: 0.4909, 34.0: 0.3682, 48.0: 0.1841}
    assert_steps(weeks, 11, curve, 0.1841)


def test_kaplan_and_meiers_own_example() -> None:
    """1958, section 2: deaths at 0.8, 3.1, 5.4, 9.2 months; losses at 1.0, 2.7, 7.0, 12.1."""
    months = ended(0.8, 3.1, 5.4, 9.2) + bounds(1.0, 2.7, 7.0, 12.1)
    assert_steps(months, 8, {0.8: 7 / 8, 3.1: 7 / 10, 5.4: 21 / 40, 9.2: 21 / 80}, 21 / 80)


@given(runs)
def test_without_bounds_it_is_the_plain_quantile(pairs: list[tuple[float, bool]]) -> None:
    whole = [(t, False) for t, _ in pairs]
    assert quantiles(whole) == pytest.approx(np.quantile([t for t, _ in pairs], SHARES), rel=1e-14)


@given(runs, st.randoms(use_true_random=False))
def test_the_order_of_jobs_is_nothing(pairs: list[tuple[float, bool]], random: object) -> None:
    shuffled = list(pairs)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert quantiles(shuffled).tolist() == pytest.approx(quantiles(pairs).tolist(), nan_ok=True, abs=0)


def at_most(before: np.ndarray, after: np.ndarray) -> bool:
    """NaN is longer than anything."""
    return bool(np.all(np.nan_to_num(before, nan=np.inf) <= np.nan_to_num(after, nan=np.inf) * (1 + 1e-9)))


@given(runs, st.integers(1, 30))
def test_one_more_bound_never_lowers_a_quantile(pairs: list[tuple[float, bool]], bound: int) -> None:
    assert at_most(quantiles(pairs), quantiles([*pairs, (float(bound), True)]))


@given(runs, st.integers(0, 24))
def test_a_runtime_turned_into_a_bound_never_lowers_a_quantile(pairs: list[tuple[float, bool]], place: int) -> None:
    place %= len(pairs)
    changed = [*pairs[:place], (pairs[place][0], True), *pairs[place + 1 :]]
    assert at_most(quantiles(pairs), quantiles(changed))


@given(runs)
def test_quantiles_rise_and_stay_within_what_ended(pairs: list[tuple[float, bool]]) -> None:
    found = quantiles(pairs)
    known = found[~np.isnan(found)]
    assert np.all(np.diff(known) >= -1e-9) and np.all(np.isnan(found[len(known) :]))
    whole = [t for t, bound in pairs if not bound]
    assert all(min(whole) <= q <= max(t for t, _ in pairs) for q in known)


def test_nothing_ended_nothing_known() -> None:
    assert np.isnan(quantiles(bounds(1, 2, 3))).all()
    empty = np.empty(0)
    none = np.empty(0, np.int64)
    assert survival_quantiles(empty, empty.astype(bool), none, none, np.array([0.5])).shape == (1, 0)
