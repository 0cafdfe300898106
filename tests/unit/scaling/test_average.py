"""The model average: against plain linear algebra, under changes that must not matter, and against what it promises."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.arrays import Floats
from pipeline.scaling.average import (
    DRIFT_LOG_SD,
    ENDED,
    ENDED_GAIN,
    ENDED_LOG_SD,
    FREEDOM,
    ODDS,
    STEP_LOG_SD,
    Averaged,
    average,
    kin_of,
    shape_grid,
    weights_of,
)
from pipeline.scaling.series import SeriesBatch

NOISE = 0.05**2


def sizes_of(*series: dict[float, float], noise: float = NOISE) -> SeriesBatch:
    offsets = np.cumsum([0, *(len(one) for one in series)])
    procs = np.array([n for one in series for n in one], np.float64)
    runtime_s = np.array([t for one in series for t in one.values()], np.float64)
    return SeriesBatch(offsets.astype(np.int64), procs, runtime_s, np.full(procs.size, 1 / noise))


def predicted(sizes: SeriesBatch, procs: list[float]) -> Averaged:
    """The average of the only series."""
    at = np.array(procs, np.float64)
    return average(sizes, np.zeros(at.size, np.int64), at)


def by_linear_algebra(sizes: SeriesBatch, at: float) -> tuple[float, float, float]:
    """Mean of log T at a place, the variance between shapes and that within one, from the full covariance.

    Hypotheses: no odd step, the last one, the first one, all but the last, and that scaling has ended; the variance of
    an odd step spreads evenly over it.
    """
    log2_x = np.log2(np.append(sizes.procs, at) / sizes.procs[0])
    m = len(sizes.procs)
    odd_steps: list[list[int]] = [[], [m - 2], [0], list(range(m - 2)), [m - 2]]
    odds = np.array(ODDS)
    odds[1] *= log2_x[-2] - log2_x[-3]
    odds[3] *= m > 3
    odds[ENDED] *= np.log(sizes.runtime_s[-1] / sizes.runtime_s[-2]) > -ENDED_GAIN and sizes.runtime_s[-2] < 900
    parts = [_hypothesis(sizes, log2_x, h, odd_steps[h], odds[h]) for h in np.flatnonzero(odds)]
    weight, place, within = (np.concatenate(column) for column in zip(*parts, strict=True))
    weight = weight / weight.sum()
    mean = weight @ place
    return float(mean), float(weight @ (place - mean) ** 2), float(weight @ within)


def _hypothesis(
    sizes: SeriesBatch, log2_x: Floats, h: int, odd: list[int], odds: float
) -> tuple[Floats, Floats, Floats]:
    shapes, m = shape_grid(), len(sizes.procs)
    on_curve = np.minimum(log2_x, log2_x[m - 2]) if h == ENDED else log2_x
    shape = shapes.log_shape[np.round((on_curve + 20) * 16).astype(int)]
    path = DRIFT_LOG_SD**2 * (log2_x - log2_x.min())
    for step in odd:
        first, last = log2_x[step], log2_x[step + 1]
        variance = ENDED_LOG_SD**2 * (last - first) if h == ENDED else STEP_LOG_SD**2
        path = path + variance * np.clip((log2_x - first) / (last - first), 0, 1)
    walk = np.minimum.outer(path, path)
    covariance = walk[:m, :m] + np.diag(1 / sizes.weights)
    inverse = np.linalg.inv(covariance)
    ones, cross = np.ones(m), walk[:m, m]
    whole = ones @ inverse @ ones
    error = np.log(sizes.runtime_s)[:, None] - shape[:m]
    level = ones @ inverse @ error / whole
    off = error - level
    misfit = np.einsum("ig,ij,jg->g", off, inverse, off)
    constant = odds / np.sqrt(np.linalg.det(covariance) * whole)
    weight = constant * shapes.prior * (FREEDOM + misfit) ** (-0.5 * (FREEDOM + m - 1))
    own = walk[m, m] - cross @ inverse @ cross + (1 - ones @ inverse @ cross) ** 2 / whole
    return weight, shape[m] + level + cross @ inverse @ off, (FREEDOM + misfit) / (FREEDOM + m - 1) * own


@pytest.mark.parametrize("last_s", [120.0, 168.0, 190.0])
@pytest.mark.parametrize("at", [0.5, 1.0, 2.0, 8.0, 11.313708498984761, 16.0, 64.0])
def test_kriging_is_the_full_covariance(at: float, last_s: float) -> None:
    sizes = sizes_of({1: 900.0, 4: 300.0, 8: 170.0, 16: last_s})
    found = predicted(sizes, [at])
    mean, between, within = by_linear_algebra(sizes, at)
    assert found.log_s[0] == pytest.approx(mean, abs=1e-6)
    assert found.log_sd[0] ** 2 == pytest.approx(between + within, rel=1e-5)


def test_a_tail_that_stopped_falling_stays() -> None:
    """After 584 s come 672 s: neither a curve that falls again nor one that goes on rising is likelier than none."""
    found = np.exp(predicted(sizes_of({8: 1850.0, 16: 1010.0, 32: 584.0, 64: 672.0}), [128.0, 256.0]).log_s)
    assert found == pytest.approx(672.0, rel=0.1)


def test_the_slope_of_the_last_two_sizes_goes_on_where_no_law_joins_the_others() -> None:
    found = np.exp(predicted(sizes_of({1: 1000.0, 2: 900.0, 4: 850.0, 8: 430.0, 16: 212.0}), [32.0]).log_s)
    assert found == pytest.approx(106.0, rel=0.15)


series_of_any = st.lists(
    st.tuples(st.integers(1, 4096), st.floats(0.01, 1e6)), min_size=1, max_size=8, unique_by=lambda point: point[0]
).map(lambda points: dict(sorted(points)))


@settings(max_examples=60, deadline=None)
@given(series_of_any, st.floats(1e-3, 1e3), st.sampled_from([1, 2, 16]))
def test_the_units_of_time_and_of_processors_are_nothing(series: dict[int, float], factor: float, procs: int) -> None:
    once = predicted(sizes_of(series), [1.0, 10.0, 1000.0])
    moved = sizes_of({n * procs: t * factor for n, t in series.items()})
    other = predicted(moved, [1.0 * procs, 10.0 * procs, 1e3 * procs])
    assert other.log_s == pytest.approx(once.log_s + np.log(factor), abs=0.002)
    assert other.log_sd == pytest.approx(once.log_sd, abs=0.002)


@settings(max_examples=60, deadline=None)
@given(series_of_any)
def test_doubt_grows_with_distance(series: dict[int, float]) -> None:
    found = predicted(sizes_of(series), [float(max(series) * 2**k) for k in range(5)]).log_sd
    # Shapes may meet again a little further out, so doubt may shrink, but never to below what one doubling has.
    assert (found[1:] > found[0] - 0.02).all()


@settings(max_examples=30, deadline=None)
@given(st.lists(series_of_any, min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_the_order_of_series_and_targets_is_nothing(many: list[dict[int, float]], random: object) -> None:
    order = list(range(len(many)))
    random.shuffle(order)  # type: ignore[attr-defined]
    series, procs = np.repeat(np.arange(len(many)), 2), np.tile([3.0, 77.0], len(many))
    once = average(sizes_of(*many), series, procs)
    place = np.argsort(order)[series][::-1]
    again = average(sizes_of(*(many[k] for k in order)), place, procs[::-1])
    assert (again.log_s[::-1] == once.log_s).all() and (again.log_sd[::-1] == once.log_sd).all()


def test_many_repeats_outweigh_the_curve() -> None:
    sizes = sizes_of({1: 1000.0, 2: 500.0, 4: 400.0, 8: 125.0}, noise=1e-6)
    assert np.exp(predicted(sizes, [4.0]).log_s[0]) == pytest.approx(400.0, rel=0.01)


def test_a_series_without_sizes_has_no_answer() -> None:
    sizes = sizes_of({}, {1: 5.0, 2: 3.0})
    found = average(sizes, np.array([0, 1]), np.array([4.0, 4.0])).log_s
    assert np.isnan(found[0]) and np.isfinite(found[1])


def test_a_series_does_not_inform_itself() -> None:
    one, other = {1: 100.0, 2: 60.0, 4: 45.0}, {1: 10.0, 2: 6.0, 4: 4.5, 8: 4.5, 16: 4.5, 32: 4.5}
    alone = predicted(sizes_of(one), [64.0]).log_s
    kin = kin_of(sizes_of(one, other), np.array([0, 1]))
    at, group = np.array([64.0]), np.array([0])
    assert average(sizes_of(one, other), group, at, kin).log_s == pytest.approx(alone)
    kin = kin_of(sizes_of(one, other), np.array([0, 0]))
    assert average(sizes_of(one, other), group, at, kin).log_s[0] > alone[0]


def test_posteriors_sum_to_one_and_favour_the_truth() -> None:
    shapes = shape_grid()
    weights = weights_of(sizes_of({2**k: 2.0**-k for k in range(8)}, noise=1e-4), shapes)
    assert weights.sum() == pytest.approx(1)
    is_constant = (shapes.log_shape == 0.0).all(axis=0)
    assert is_constant.any()
    assert weights[is_constant].sum() < 1e-6


@pytest.mark.parametrize("power", [1.5, 2.0, 3.0])
def test_runtime_that_grows_faster_than_the_processors_is_followed(power: float) -> None:
    """Three sizes with 3% noise, 64 times beyond: an overhead per processor would fall short by 64^(power - 1)."""
    rng = np.random.default_rng(3)
    many = [{n: 0.5 * n**power * np.exp(0.03 * rng.standard_normal()) for n in (1, 4, 16)} for _ in range(20)]
    found = average(sizes_of(*many), np.arange(20), np.full(20, 1024.0)).log_s
    short = (power - 1) * np.log(64)
    assert np.median(found) == pytest.approx(np.log(0.5 * 1024.0**power), abs=0.3 * short)


def test_one_rise_is_not_read_as_runaway_growth() -> None:
    """Falling runtimes that turn at the last size, as small problems do, rise no faster than the processors."""
    found = np.exp(predicted(sizes_of({1: 100.0, 2: 55.0, 4: 30.0, 8: 24.0, 16: 26.0}), [32.0, 64.0]).log_s)
    assert found[0] < 2 * 26.0 and found[1] < 4 * 26.0


def test_a_first_size_that_the_rest_do_not_obey_is_forgiven() -> None:
    """The smallest size takes twice as long as the law of the rest, as where its data fit in no cache."""
    procs = 2.0 ** np.arange(5)
    law_s = 100.0 * (0.02 + 0.98 / procs)
    sizes = sizes_of(dict(zip(procs, law_s * np.where(procs == 1, 2.0, 1.0), strict=True)), noise=0.03**2)
    assert np.exp(predicted(sizes, [64.0]).log_s[0]) == pytest.approx(100.0 * (0.02 + 0.98 / 64), rel=0.2)
