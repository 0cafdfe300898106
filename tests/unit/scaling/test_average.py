"""The model average: against plain linear algebra, under changes that must not matter, and against what it promises."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import stdtr

from pipeline.arrays import Floats
from pipeline.scaling.average import QUANTILES, Sizes, average, kin_of
from pipeline.scaling.calibration import (
    DEFAULT_STRETCH,
    DRIFTS,
    OWN_SERIES,
    Calibration,
    calibrated,
    log_wide_sd,
    median_variance,
    rests_on,
    run_log_sd,
)
from pipeline.scaling.mixtures import JUMP_LOG_SD, JUMP_ODDS
from pipeline.scaling.posterior import FREEDOM, shape_grid

NOISE, DRIFT = 0.05**2, 0.07**2


def sizes_of(*series: dict[float, float], noise: float = NOISE, drift: float = DRIFT) -> Sizes:
    offsets = np.cumsum([0, *(len(one) for one in series)])
    procs = np.array([n for one in series for n in one], np.float64)
    runtime_s = np.array([t for one in series for t in one.values()], np.float64)
    return Sizes(offsets.astype(np.int64), procs, runtime_s, np.full(procs.size, noise), np.full(len(series), drift))


def predicted(sizes: Sizes, procs: list[float], new: float = 0.0) -> Floats:
    """log runtimes at QUANTILES of the only series."""
    at = np.array(procs, np.float64)
    series = np.zeros(at.size, np.int64)
    return average(sizes, series, at, np.full(at.size, new)).log_s


def by_linear_algebra(sizes: Sizes, at: float) -> tuple[Floats, Floats, Floats, float]:
    """Per hypothesis and shape: weight, place and scale of its Student-t; its degrees of freedom.

    From the full covariance. Under the second hypothesis the last step has a jump's variance, spread over the step.
    """
    log2_x = np.log2(np.append(sizes.procs, at) / sizes.procs[0])
    before, last = log2_x[-3], log2_x[-2]
    odds = JUMP_ODDS * (last - before)
    parts = [_hypothesis(sizes, log2_x, 0.0, 1.0), _hypothesis(sizes, log2_x, JUMP_LOG_SD**2, odds)]
    weight, place, scale = (np.concatenate(column) for column in zip(*parts, strict=True))
    return weight / weight.sum(), place, scale, FREEDOM + len(sizes.procs) - 1


def _hypothesis(sizes: Sizes, log2_x: Floats, jump: float, odds: float) -> tuple[Floats, Floats, Floats]:
    grid, m = shape_grid(), len(sizes.procs)
    shape = grid.log_shape[np.round((log2_x + 20) * 16).astype(int)]
    from_start, end = log2_x - log2_x.min(), log2_x[m - 2 : m]
    jumped = jump * np.clip((log2_x - end[0]) / (end[1] - end[0]), 0, 1)
    walk = np.minimum(*np.meshgrid(sizes.drift[0] * from_start + jumped, sizes.drift[0] * from_start + jumped))
    covariance = walk[:m, :m] + np.diag(sizes.variance)
    inverse = np.linalg.inv(covariance)
    ones, cross = np.ones(m), walk[:m, m]
    whole = ones @ inverse @ ones
    error = np.log(sizes.runtime_s)[:, None] - shape[:m]
    level = ones @ inverse @ error / whole
    off = error - level
    misfit = np.einsum("ig,ij,jg->g", off, inverse, off)
    constant = odds / np.sqrt(np.linalg.det(covariance) * whole)
    weight = constant * grid.prior * (FREEDOM + misfit) ** (-0.5 * (FREEDOM + m - 1))
    place = shape[m] + level + cross @ inverse @ off
    own = walk[m, m] - cross @ inverse @ cross + (1 - ones @ inverse @ cross) ** 2 / whole
    return weight, place, np.sqrt((FREEDOM + misfit) / (FREEDOM + m - 1) * own)


@pytest.mark.parametrize("at", [0.5, 1.0, 2.0, 8.0, 11.313708498984761, 16.0, 64.0])
def test_filtering_is_the_full_covariance(at: float) -> None:
    sizes = sizes_of({1: 900.0, 4: 300.0, 8: 170.0, 16: 120.0})
    found = predicted(sizes, [at])[0]
    weight, place, scale, freedom = by_linear_algebra(sizes, at)
    below = [float((weight * stdtr(freedom, (q - place) / scale)).sum()) for q in found]
    # Terms within a fifth of a scale share a bin, and shapes below e^-9 of the best are left out.
    assert below == pytest.approx(list(QUANTILES), abs=0.006)


series_of_any = st.lists(
    st.tuples(st.integers(1, 4096), st.floats(0.01, 1e6)), min_size=1, max_size=8, unique_by=lambda point: point[0]
).map(lambda points: dict(sorted(points)))


@settings(max_examples=60, deadline=None)
@given(series_of_any, st.floats(1e-3, 1e3))
def test_the_unit_of_time_is_nothing(series: dict[int, float], factor: float) -> None:
    once = predicted(sizes_of(series), [1.0, 10.0, 1000.0])
    other = predicted(sizes_of({n: t * factor for n, t in series.items()}), [1.0, 10.0, 1000.0])
    assert other == pytest.approx(once + np.log(factor), abs=0.02)


@settings(max_examples=60, deadline=None)
@given(series_of_any, st.sampled_from([2, 16]))
def test_the_unit_of_processors_is_nothing(series: dict[int, float], factor: int) -> None:
    once = predicted(sizes_of(series), [1.0, 10.0, 1000.0])
    other = predicted(sizes_of({n * factor: t for n, t in series.items()}), [1.0 * factor, 10.0 * factor, 1e3 * factor])
    assert other == pytest.approx(once, abs=0.02)


@settings(max_examples=60, deadline=None)
@given(series_of_any)
def test_quantiles_rise_and_intervals_widen_with_distance(series: dict[int, float]) -> None:
    largest = max(series)
    found = predicted(sizes_of(series), [float(largest * 2**k) for k in range(5)])
    assert (np.diff(found, axis=1) >= 0).all()
    # Shapes may meet again a little further out, so the width may shrink, but never to below what one doubling has.
    width = found[:, 3] - found[:, 1]
    assert (width[1:] > width[0] - 0.02).all()


@settings(max_examples=30, deadline=None)
@given(st.lists(series_of_any, min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_the_order_of_series_and_targets_is_nothing(many: list[dict[int, float]], random: object) -> None:
    order = list(range(len(many)))
    random.shuffle(order)  # type: ignore[attr-defined]
    series, procs = np.repeat(np.arange(len(many)), 2), np.tile([3.0, 77.0], len(many))
    once = average(sizes_of(*many), series, procs, np.zeros(procs.size))
    place = np.argsort(order)[series][::-1]
    again = average(sizes_of(*(many[k] for k in order)), place, procs[::-1], np.zeros(procs.size))
    assert (again.log_s[::-1] == once.log_s).all() and (again.split[::-1] == once.split).all()


def test_many_repeats_outweigh_the_curve() -> None:
    sizes = sizes_of({1: 1000.0, 2: 500.0, 4: 400.0, 8: 125.0}, noise=1e-6)
    assert np.exp(predicted(sizes, [4.0])[0, 2]) == pytest.approx(400.0, rel=0.01)


def test_a_series_without_sizes_has_no_answer() -> None:
    sizes = sizes_of({}, {1: 5.0, 2: 3.0})
    found = average(sizes, np.array([0, 1]), np.array([4.0, 4.0]), np.zeros(2)).log_s
    assert np.isnan(found[0]).all() and np.isfinite(found[1]).all()


def test_a_series_does_not_inform_itself() -> None:
    one, other = {1: 100.0, 2: 60.0, 4: 45.0}, {1: 10.0, 2: 6.0, 4: 4.5, 8: 4.5, 16: 4.5, 32: 4.5}
    alone = predicted(sizes_of(one), [64.0])
    kin = kin_of(sizes_of(one, other), np.array([0, 1]))
    at, group = np.array([64.0]), np.array([0])
    assert average(sizes_of(one, other), group, at, np.zeros(1), kin).log_s == pytest.approx(alone)
    kin = kin_of(sizes_of(one, other), np.array([0, 0]))
    assert average(sizes_of(one, other), group, at, np.zeros(1), kin).log_s[0, 2] > alone[0, 2]


def test_posteriors_sum_to_one_and_favour_the_truth() -> None:
    weights = kin_of(sizes_of({2**k: 2.0**-k for k in range(8)}, noise=1e-4, drift=1e-4), np.array([0])).posterior_sums
    grid = shape_grid()
    assert weights.sum() == pytest.approx(1)
    assert weights[0, grid.family == grid.families.index("constant")].sum() < 1e-6


def test_drift_is_small_where_a_law_holds_and_large_where_none_does() -> None:
    rng = np.random.default_rng(3)
    counts = 2.0 ** np.arange(6)

    def log_of(drift: float) -> float:
        walk = np.cumsum(drift * rng.standard_normal((60, 6)), axis=1)
        shares = rng.uniform(0.001, 0.2, 60)
        curves = [np.exp(w) * (f + (1 - f) / counts) for w, f in zip(walk, shares, strict=True)]
        sizes = sizes_of(*(dict(zip(counts, one, strict=True)) for one in curves), noise=0.02**2)
        return calibrated(sizes, sizes.variance, 0.05).drift_log_sd

    weight = 60 / (60 + OWN_SERIES)
    assert log_of(0.0) == pytest.approx(DRIFTS[0] ** weight * 0.05 ** (1 - weight))
    assert log_of(0.15) > 0.051


def test_a_short_log_keeps_the_default_drift() -> None:
    sizes = sizes_of({1: 4.0, 2: 2.0, 4: 1.0, 8: 0.5})
    assert calibrated(sizes, sizes.variance, 0.0625) == Calibration(0.0625, DEFAULT_STRETCH)


def _truth(rng: np.random.Generator, procs: Floats) -> Floats:
    """A law at random: Amdahl, with an overhead in n or in log n, or Downey's high-variance mode."""
    share, overhead = 10 ** rng.uniform(-4, -0.5), 10 ** rng.uniform(-5, -2)
    bend = 2 ** rng.uniform(1, 10)
    falling = share + (1 - share) / procs
    rising = (
        0.0,
        overhead * (procs - 1),
        10 * overhead * np.log2(procs),
        share / np.minimum(procs, bend) - share / procs,
    )
    curve: Floats = falling + rising[rng.integers(4)]
    return curve


def test_intervals_cover_what_they_say_on_synthetic_logs() -> None:
    """800 series of 3 to 8 sizes with noise of 2 to 20%, calibrated on themselves as a log is: one new run each."""
    rng = np.random.default_rng(11)
    many, new, n_runs, freedom, core = [], [], [], [], []
    for _ in range(800):
        m, repeats = int(rng.integers(3, 9)), int(rng.choice([1, 1, 3, 5]))
        procs = 2.0 ** np.arange(m + 2) * 2 ** int(rng.integers(0, 3))
        runs = np.log(_truth(rng, procs)) + np.exp(rng.uniform(np.log(0.02), np.log(0.2))) * rng.standard_normal(
            (repeats, m + 2)
        )
        many.append(dict(zip(procs[:m], np.exp(np.median(runs[:, :m], axis=0)), strict=True)))
        new.append(list(zip(procs[m:], runs[0, m:], strict=True)))
        n_runs += [repeats] * m
        freedom.append((repeats - 1) * m)
        core.append(runs[:, :m].std(axis=0, ddof=1).mean() if repeats > 1 else np.nan)
    free, spread = np.array(freedom, np.float64), np.array(core)
    run_sd = run_log_sd(free, spread, log_wide_sd(free, spread, 0.06))
    sizes = sizes_of(*many)
    of = np.repeat(np.arange(800), np.diff(sizes.offsets))
    variance = median_variance(run_sd[of], np.array(n_runs, np.float64), 0.02)
    sizes = Sizes(sizes.offsets, sizes.procs, sizes.runtime_s, variance, sizes.drift)
    calibration = calibrated(sizes, variance, 0.05)
    sizes = sizes.drifting(calibration.drift_log_sd)
    series = np.repeat(np.arange(800), 2)
    procs, log_s = np.array([point for one in new for point in one]).T
    log_s_at = average(sizes, series, procs, run_sd[series] ** 2 + 0.02**2).log_s
    found = calibration.stretched(log_s_at, rests_on(sizes, series, procs))
    in80 = np.mean((log_s >= found[:, 1]) & (log_s <= found[:, 3]))
    in95 = np.mean((log_s >= found[:, 0]) & (log_s <= found[:, 4]))
    assert 0.75 <= in80 <= 0.85 and 0.92 <= in95 <= 0.98, (in80, in95, calibration)


@pytest.mark.parametrize("power", [1.5, 2.0, 3.0])
def test_runtime_that_grows_faster_than_the_processors_is_followed(power: float) -> None:
    """Three sizes with 3% noise, 64 times beyond: an overhead per processor would fall short by 64^(power - 1)."""
    rng = np.random.default_rng(3)
    many = [{n: 0.5 * n**power * np.exp(0.03 * rng.standard_normal()) for n in (1, 4, 16)} for _ in range(20)]
    found = average(sizes_of(*many), np.arange(20), np.full(20, 1024.0), np.zeros(20)).log_s[:, 2]
    assert np.median(found) == pytest.approx(np.log(0.5 * 1024.0**power), abs=0.1)


def test_one_rise_is_not_read_as_runaway_growth() -> None:
    """Falling runtimes that turn at the last size, as small problems do, rise no faster than the processors."""
    found = np.exp(predicted(sizes_of({1: 100.0, 2: 55.0, 4: 30.0, 8: 24.0, 16: 26.0}), [32.0, 64.0])[:, 2])
    assert found[0] < 2 * 26.0 and found[1] < 4 * 26.0
