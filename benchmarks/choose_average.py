"""Chooses the model average's constants by leave-one-application-out, and measures the error that this choice adds.

python -m benchmarks.choose_average FILE.csv...

Files as of `walltime scaling evaluate`. Every candidate value of every constant stands in for the default, one at a
time; an error is the mean log of (absolute log error + 1%) over a series' targets, then over series, files and splits
of an application. The value with the least error over the other applications is chosen; printed are what each
application's others choose, and the geometric mean of the held-out errors beside that of the defaults. The average is
computed from its full covariance, apart from the compiled kernels, whose constants are fixed.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy.special import stdtr

from flows.services.series_files import read_all
from pipeline.arrays import Floats
from pipeline.evaluate.scaling_errors import make_splits
from pipeline.scaling.average import LEAST_SIZES, Sizes
from pipeline.scaling.calibration import (
    OWN_SERIES,
    calibrated,
    log_wide_sd,
    median_variance,
    repeats,
    run_log_sd,
)
from pipeline.scaling.curves import PredictionTask
from pipeline.scaling.mixtures import JUMP_LEAST_SIZES, JUMP_LOG_SD, JUMP_ODDS
from pipeline.scaling.points import extra_runs, pooled
from pipeline.scaling.posterior import (
    FREEDOM,
    LEAST_LOG2,
    SIBLING_WEIGHT,
    STEPS_PER_OCTAVE,
    ShapeGrid,
    law_weights,
    shape_grid,
)
from pipeline.scaling.rules import PredictRules

SETTINGS = PredictRules()
LAW_WEIGHTS = law_weights()
CHOSEN_WEIGHTS = ("amdahl", "amdahl_log", "growing")
NEGLIGIBLE_LOG = 9.0


@dataclass(frozen=True, slots=True)
class Constants:
    """What is chosen; the defaults are the product's."""

    jump_odds: float = JUMP_ODDS
    jump_log_sd: float = JUMP_LOG_SD
    drift_log_sd: float = SETTINGS.drift_log_sd
    own_series: float = OWN_SERIES
    sibling_weight: float = SIBLING_WEIGHT
    freedom: int = FREEDOM
    amdahl: float = LAW_WEIGHTS["amdahl"]
    amdahl_log: float = LAW_WEIGHTS["amdahl_log"]
    growing: float = LAW_WEIGHTS["growing"]


CANDIDATES: dict[str, tuple[float, ...]] = {
    "jump_odds": (0.0, 0.03, 0.05, 0.1, 0.2, 0.3),
    "jump_log_sd": (0.2, 0.3, 0.4, 0.5),
    "drift_log_sd": (0.05, 0.07, 0.1),
    "own_series": (100.0, 300.0, 1000.0),
    "sibling_weight": (0.0, 0.02, 0.05, 0.1, 0.2),
    "freedom": (1, 2, 3),
    "amdahl": (2.0, 3.0, 4.0),
    "amdahl_log": (0.25, 0.5, 1.0),
    "growing": (0.0, 0.02, 0.05),
}


@dataclass(frozen=True, slots=True)
class Problem:
    """One file's series as one split gives them; `own_drift` is what they alone would choose (NaN: too few)."""

    file: str
    asked: PredictionTask
    measured_s: Floats
    variance: Floats
    own_drift: float
    n_judged: int
    applications: tuple[str, ...]

    def drift(self, constants: Constants) -> float:
        """Log s per root of a doubling: the series' own, shrunk to the default."""
        if np.isnan(self.own_drift):
            return constants.drift_log_sd
        share = self.n_judged / (self.n_judged + constants.own_series)
        return float(self.own_drift**share * constants.drift_log_sd ** (1 - share))


def problem(file: str, asked: PredictionTask, measured_s: Floats, applications: tuple[str, ...]) -> Problem:
    """With the noise that `walltime` assumes, and the drift before it is shrunk."""
    freedom, spread = (
        repeats(asked.offsets, asked.n_runs),
        pooled(asked.offsets, extra_runs(asked.n_runs, asked.log_sd), asked.log_sd),
    )
    run_sd = run_log_sd(freedom, spread, log_wide_sd(freedom, spread, SETTINGS.run_log_sd))
    counts = np.diff(asked.offsets)
    variance = median_variance(np.repeat(run_sd, counts), asked.n_runs, SETTINGS.measured_log_sd)
    sizes = Sizes(asked.offsets, asked.procs, asked.runtime_s, variance, np.full(counts.size, SETTINGS.drift_log_sd**2))
    found, n_judged = calibrated(sizes, variance, SETTINGS.drift_log_sd).drift_log_sd, int((counts > 3).sum())
    share, default = n_judged / (n_judged + OWN_SERIES), SETTINGS.drift_log_sd
    own = np.nan if found == default else (found / default ** (1 - share)) ** (1 / share)
    return Problem(file, asked, measured_s, variance, own, n_judged, applications)


def problems(files: list[Path]) -> Iterator[Problem]:
    """Every split of every file."""
    for path in files:
        observations, applications = read_all([path])
        names = tuple(sorted(set(applications.values())))
        for split in make_splits(observations, applications)[0]:
            yield problem(path.stem, split.asked, split.measured_s, names)


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """Of one series: errors' weights for the level at each target, the variance there, the misfit per shape."""

    to_target: Floats
    variance: Floats
    misfit: Floats


def log_medians(of: Problem, constants: Constants) -> Floats:
    """The average's log runtime at every target, from full covariances."""
    grid, asked = shape_grid(), of.asked
    prior = _prior(grid, constants)
    rate, n_series = of.drift(constants) ** 2, asked.offsets.size - 1
    parts = [_one_series(of, i, rate, grid, prior, constants) for i in range(n_series)]
    informative = asked.application[np.diff(asked.offsets) >= LEAST_SIZES]
    n_informative = np.bincount(informative, minlength=len(of.applications))
    posterior_sums = np.zeros((len(of.applications), prior.size))
    for i, (weight, _, _) in enumerate(parts):
        if asked.offsets[i + 1] - asked.offsets[i] >= LEAST_SIZES:
            posterior_sums[asked.application[i]] += weight.sum(axis=0)
    found = np.empty(asked.target_series.size)
    for i, (own, hypotheses, error) in enumerate(parts):
        rows, m = np.flatnonzero(asked.target_series == i), asked.offsets[i + 1] - asked.offsets[i]
        code, is_informative = asked.application[i], m >= LEAST_SIZES
        others = float(n_informative[code] - is_informative)
        share = others * constants.sibling_weight / (1 + others * constants.sibling_weight)
        rest = np.maximum(posterior_sums[code] - is_informative * own.sum(axis=0), 0) / max(others, 1.0)
        weight = own * (1 - share + share * rest / np.where(prior > 0, prior, 1.0))
        at = np.log2(asked.target_procs[rows] / asked.procs[asked.offsets[i]])
        found[rows] = _medians(weight, hypotheses, error, _shapes_at(grid, at), constants.freedom, int(m))
    return found


def _prior(grid: ShapeGrid, constants: Constants) -> Floats:
    weights = {name: getattr(constants, name) / LAW_WEIGHTS[name] for name in CHOSEN_WEIGHTS}
    prior = grid.prior * np.array([weights.get(law, 1.0) for law in grid.families])[grid.family]
    shares: Floats = prior / prior.sum()
    return shares


def _shapes_at(grid: ShapeGrid, log2_x: Floats) -> Floats:
    place = (log2_x - LEAST_LOG2) * STEPS_PER_OCTAVE
    row = np.clip(np.floor(place).astype(np.int64), 0, grid.log_shape.shape[0] - 2)
    share = (place - row)[:, None]
    values: Floats = (1 - share) * grid.log_shape[row] + share * grid.log_shape[row + 1]
    return values


def _one_series(
    of: Problem, i: int, rate: float, grid: ShapeGrid, prior: Floats, constants: Constants
) -> tuple[Floats, list[Hypothesis], Floats]:
    """Weight per hypothesis and shape, summing to 1; the hypotheses; log runtime less log shape per size and shape."""
    asked, own = of.asked, slice(of.asked.offsets[i], of.asked.offsets[i + 1])
    log2_x = np.log2(asked.procs[own] / asked.procs[own][0])
    at = np.log2(asked.target_procs[asked.target_series == i] / asked.procs[own][0])
    error = np.log(asked.runtime_s[own])[:, None] - _shapes_at(grid, log2_x)
    last = log2_x[-1] - log2_x[-2] if log2_x.size >= JUMP_LEAST_SIZES else 0.0
    odds = min(constants.jump_odds * last, 1.0)
    cases = [(1.0, 0.0)] + ([(odds, constants.jump_log_sd**2)] if odds > 0 else [])
    found, logs = [], []
    for chance, jump in cases:
        hypothesis, log_constant = _hypothesis(log2_x, at, error, of.variance[own], rate, jump)
        found.append(hypothesis)
        power = 0.5 * (constants.freedom + log2_x.size - 1)
        with np.errstate(divide="ignore"):
            likely = np.log(chance * prior) - power * np.log(constants.freedom + hypothesis.misfit)
        logs.append(log_constant + likely)
    weight = np.exp(np.array(logs) - np.max(logs))
    return weight / weight.sum(), found, error


def _hypothesis(
    log2_x: Floats, at: Floats, error: Floats, variance: Floats, rate: float, jump: float
) -> tuple[Hypothesis, float]:
    """Regression with a flat level on a Brownian drift whose last step has the jump's variance too."""
    steps = rate * np.diff(log2_x)
    if jump > 0:
        steps[-1] += jump
    walked = np.concatenate([[0.0], np.cumsum(steps)])
    covariance = np.minimum.outer(walked, walked) + np.diag(variance)
    inverse = np.linalg.inv(covariance)
    ones = inverse.sum(axis=1)
    centred = inverse - np.outer(ones, ones) / ones.sum()
    misfit = np.maximum((error * (centred @ error)).sum(axis=0), 0.0)
    there = np.interp(at, log2_x, walked)
    outside = rate * (np.maximum(at - log2_x[-1], 0) + np.maximum(-at, 0))
    cross = np.minimum.outer(there, walked)
    gain = cross @ inverse
    rest = 1 - cross @ ones
    spread = there + outside - (gain * cross).sum(axis=1) + rest**2 / ones.sum()
    constant = -0.5 * (np.linalg.slogdet(covariance)[1] + np.log(ones.sum()))
    return Hypothesis(gain + np.outer(rest, ones) / ones.sum(), spread, misfit), float(constant)


def _medians(
    weight: Floats, hypotheses: list[Hypothesis], error: Floats, shapes: Floats, freedom: int, m: int
) -> Floats:
    """Medians of the mixtures of Student-t, by bisection."""
    kept = [np.flatnonzero(row > weight.max() * np.exp(-NEGLIGIBLE_LOG)) for row in weight]
    share = np.concatenate([row[places] for row, places in zip(weight, kept, strict=True)])
    place = np.hstack([shapes[:, g] + one.to_target @ error[:, g] for one, g in zip(hypotheses, kept, strict=True)])
    factor = [(freedom + one.misfit[g]) / (freedom + m - 1) for one, g in zip(hypotheses, kept, strict=True)]
    spread = np.hstack([one.variance[:, None] * inner for one, inner in zip(hypotheses, factor, strict=True)])
    scale, share = np.sqrt(spread), share / share.sum()
    low, high = (place - 4 * scale).min(axis=1), (place + 4 * scale).max(axis=1)
    for _ in range(14):
        middle = 0.5 * (low + high)
        is_below = (share * stdtr(freedom + m - 1, (middle[:, None] - place) / scale)).sum(axis=1) < 0.5
        low, high = np.where(is_below, middle, low), np.where(is_below, high, middle)
    return 0.5 * (low + high)


def errors(of: list[Problem], constants: Constants) -> dict[str, float]:
    """Per application, the mean over files and splits of its log errors."""
    found: dict[str, list[float]] = {}
    for one in of:
        off = np.log(np.abs(log_medians(one, constants) - np.log(one.measured_s)) + 0.01)
        counts = np.bincount(one.asked.target_series)
        by_series = np.bincount(one.asked.target_series, off) / counts
        for code, name in enumerate(one.applications):
            own = one.asked.application == code
            if own.any():
                found.setdefault(name, []).append(float(by_series[own].mean()))
    return {name: float(np.mean(values)) for name, values in found.items()}


def left_out(by_value: dict[float, dict[str, float]]) -> dict[str, float]:
    """Per application, the value with the least mean error over the others."""
    applications = next(iter(by_value.values()))
    return {
        name: min(by_value, key=lambda value: np.mean([e for other, e in by_value[value].items() if other != name]))
        for name in applications
    }


def main() -> None:
    """Print a line per constant: what each application's others choose, and the error that this has."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--only", choices=CANDIDATES, action="append", help="Only this constant; may be given again.")
    given = parser.parse_args()
    of, defaults = list(problems(given.files)), Constants()
    as_is = errors(of, defaults)
    print("defaults: " + "  ".join(f"{name} {100 * np.exp(error):.2f}%" for name, error in as_is.items()))
    for constant in given.only or CANDIDATES:
        default = getattr(defaults, constant)
        others = {value: errors(of, replace(defaults, **{constant: value})) for value in CANDIDATES[constant]
                  if value != default}  # fmt: skip
        by_value = {default: as_is} | others
        chosen = left_out(by_value)
        held = np.mean([by_value[value][name] for name, value in chosen.items()])
        print(
            f"{constant} (default {default:g}): "
            + "  ".join(f"{name} {value:g}" for name, value in chosen.items())
            + f"; held out {100 * np.exp(held):.2f}%, default {100 * np.exp(np.mean(list(as_is.values()))):.2f}%; "
            + "all: "
            + "  ".join(f"{v:g} {100 * np.exp(np.mean(list(e.values()))):.2f}%" for v, e in sorted(by_value.items())),
            flush=True,
        )


if __name__ == "__main__":
    main()
