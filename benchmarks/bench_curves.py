"""Curves of measured codes, predicted from their 3, 4 or 5 smallest sizes: errors, coverage and `ok`, codes left out.

python -m benchmarks.bench_curves [DATA] [--extrap PYTHON] [--widths]

DATA as of scaling_data.py; each code is asked by itself, as in a file of its own. An error is the mean of
|predicted/measured - 1| over a series' sizes near 2, 4 or 8 times the largest given one, then over the series of a
code, then over codes; `in` are sizes between others, every second one given. The interval of the mean over 2 and 4
times is a bootstrap over codes. Coverage and `ok` use widths fitted to the other codes; --widths prints those of all
codes, as average.py has them. PYTHON is one with `extrap` 4.2.5 installed.
"""

import argparse
import itertools
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.optimize import minimize, nnls

from benchmarks.bench_extrap import WAYS, asked_of
from benchmarks.scaling_data import DATA, measured, simulated
from pipeline.arrays import Floats, Ints
from pipeline.evaluate.scaling_errors import PREDICTORS, PredictionTask, observed_series
from pipeline.scaling.average import WIDTHS, log_quantiles, width_columns
from pipeline.scaling.predictions import LEAST_BEYOND, LEAST_FAR, LEAST_SIZES
from pipeline.scaling.series import SeriesBatch
from pipeline.schema import MOST_OK_SPAN

GIVEN = (1, 2, 3, 4, 5, "in")
SHOWN = (3, 4, 5, "in")
MOST_DOUBLINGS = 3
"""Further counts are not asked for."""


@dataclass(frozen=True)
class Question:
    """Series of one way of giving sizes, and per target its row in `series`, doublings beyond and runtime (s)."""

    asked: PredictionTask
    series: Ints
    doublings: Floats
    measured_s: Floats


def question(series: pd.DataFrame, given: int | str) -> Question | None:
    """`series` has a row per size: code, name, procs, runtime_s (median), n_runs, log_sd, by name and procs."""
    codes, seen, asked, doublings = sorted(series.code.unique()), [], [], []
    for _, one in series.groupby("name", sort=True):
        is_given = _is_given(len(one), given)
        if is_given.all() or len(one) < 4:
            continue
        target, last = one[~is_given], one[is_given].procs.max()
        target = target[target.procs <= 2 ** (MOST_DOUBLINGS + 0.5) * last]
        seen.append(one[is_given])
        asked.append(target.assign(series=len(seen) - 1))
        doublings.append(np.log2(target.procs / last).to_numpy())
    if not seen:
        return None
    kept, targets = pd.concat(seen), pd.concat(asked)
    offsets = np.cumsum([0, *(len(one) for one in seen)]).astype(np.int64)
    task = PredictionTask(
        SeriesBatch(offsets, kept.procs.to_numpy(float), kept.runtime_s.to_numpy(float), np.ones(len(kept))),
        np.array([codes.index(one.code.iloc[0]) for one in seen]),
        kept.n_runs.to_numpy(float), kept.log_sd.to_numpy(float),
        targets.series.to_numpy(), targets.procs.to_numpy(float),
    )  # fmt: skip
    return Question(task, targets.index.to_numpy(), np.concatenate(doublings), targets.runtime_s.to_numpy(float))


def _is_given(n_sizes: int, given: int | str) -> np.ndarray:
    places = np.arange(n_sizes)
    return (places % 2 == 0) | (places == n_sizes - 1) if given == "in" else places < int(given)


def each_series(curve: Callable[[Floats, Floats, Floats], Floats]) -> Callable[[PredictionTask], Floats]:
    """A predictor of a function of one series' sizes and runtimes, and the sizes asked for."""

    def predict(asked: PredictionTask) -> Floats:
        found = np.empty(asked.target_procs.size)
        given = asked.given
        for i in range(given.n_series):
            own, rows = slice(given.offsets[i], given.offsets[i + 1]), asked.target_series == i
            found[rows] = curve(given.procs[own], given.runtime_s[own], asked.target_procs[rows])
        return found

    return predict


def last_slope(procs: Floats, runtime_s: Floats, at: Floats) -> Floats:
    """Straight lines between the sizes on logarithmic axes; the last goes on."""
    x, y = np.log(procs), np.log(runtime_s)
    if x.size == 1:
        return np.full(at.size, runtime_s[0])
    beyond = y[-1] + (np.log(at) - x[-1]) * (y[-1] - y[-2]) / (x[-1] - x[-2])
    return np.exp(np.where(at > procs[-1], beyond, np.interp(np.log(at), x, y)))


def last_stays(procs: Floats, runtime_s: Floats, at: Floats) -> Floats:
    """The runtime of the largest size."""
    return np.full(at.size, runtime_s[procs.argmax()])


def ernest(procs: Floats, runtime_s: Floats, at: Floats) -> Floats:
    """Non-negative least squares of relative errors in 1, 1/n, log n and n (Venkataraman et al. 2016)."""

    def functions(n: Floats) -> Floats:
        return np.column_stack([np.ones(n.size), 1 / n, np.log(n), n])

    rows = functions(procs) / runtime_s[:, None]
    scale = np.linalg.norm(rows, axis=0)
    scale[scale == 0] = 1.0
    return functions(at) @ (nnls(rows / scale, np.ones(procs.size))[0] / scale)


def gaussian_process(procs: Floats, runtime_s: Floats, at: Floats) -> Floats:
    """scikit-learn's, on log runtime over log2 of processors: a line, a smooth part and noise."""
    from sklearn.gaussian_process import GaussianProcessRegressor  # noqa: PLC0415
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, WhiteKernel  # noqa: PLC0415

    x, y = np.log2(procs / procs[0])[:, None], np.log(runtime_s)
    kernel = ConstantKernel() * RBF(2.0) + ConstantKernel() * DotProduct(1.0) + WhiteKernel(1e-3)
    scale = y.std() + 1e-9
    fitted = GaussianProcessRegressor(kernel, random_state=0).fit(x, (y - y.mean()) / scale)
    return np.exp(fitted.predict(np.log2(at / procs[0])[:, None]) * scale + y.mean())


PEERS: dict[str, Callable[[PredictionTask], Floats]] = {
    **{name: PREDICTORS[name] for name in ("walltime", "average", "amdahl", "amdahl_log", "power")},
    "last slope": each_series(last_slope),
    "last stays": each_series(last_stays),
    "Gaussian process": each_series(gaussian_process),
    "Ernest": each_series(ernest),
}


def errors(series: pd.DataFrame, peers: dict[str, Callable[[PredictionTask], Floats]]) -> pd.DataFrame:
    """Per peer, column and series the mean error, %."""
    rows = []
    for given, (_, own) in itertools.product(SHOWN, series.groupby("code")):
        if (one := question(own, given)) is None:
            continue
        column = "in" if given == "in" else [f"{given} to {2**n}x" for n in _reach(one.doublings)]
        told = series.loc[one.series, ["code", "name"]].reset_index(drop=True)
        for name, predict in peers.items():
            error = 100 * np.abs(predict(one.asked) / one.measured_s - 1)
            rows.append(told.assign(peer=name, column=column, error=error))
    return pd.concat(rows).groupby(["peer", "column", "code", "name"], as_index=False).error.mean()


def _reach(doublings: Floats) -> Ints:
    return np.clip(np.floor(doublings + 0.5), 1, MOST_DOUBLINGS).astype(int)


def table(found: pd.DataFrame, rng: np.random.Generator, draws: int = 500) -> pd.DataFrame:
    """Mean error by peer and column, every code alike; `all` over 2 and 4 times, with 90% of draws of codes."""
    near = [f"{n} to {reach}x" for n in (3, 4, 5) for reach in (2, 4)]
    by_code = found.groupby(["peer", "column", "code"]).error.mean().unstack()
    shown = by_code.mean(axis=1).unstack()
    shown["all"] = shown[near].mean(axis=1)
    drawn = rng.integers(0, by_code.shape[1], (draws, by_code.shape[1]))
    for peer in shown.index:
        overall = np.nanmean(by_code.loc[peer].loc[near].to_numpy()[:, drawn], axis=2).mean(axis=0)
        shown.loc[peer, ["low", "high"]] = np.quantile(overall, [0.05, 0.95])
    return shown.sort_values("all")


def answers(series: pd.DataFrame) -> pd.DataFrame:
    """Per target of every way what `walltime` gives: code, name, cell, log error, and what widths read."""
    parts = []
    for given, (_, own) in itertools.product(GIVEN, series.groupby("code")):
        if (one := question(own, given)) is None:
            continue
        task, observed = one.asked, observed_series(one.asked, one.asked.application)
        curve = observed.curve(task.target_series, task.target_procs)
        told = series.loc[one.series, ["code", "name"]].reset_index(drop=True)
        n_sizes, reach = task.given.n_points[task.target_series], np.where(given == "in", 0, _reach(one.doublings))
        spread = np.hypot(curve.log_sd, observed.run_sd[task.target_series])
        parts.append(told.assign(
            given=str(given), reach=reach, n_sizes=n_sizes, doublings=np.maximum(one.doublings, 0.0), log_sd=spread,
            off=np.log(one.measured_s) - curve.log_s,
        ))  # fmt: skip
    return pd.concat(parts, ignore_index=True)


def _read_by_widths(found: pd.DataFrame) -> tuple[Floats, Floats, Floats]:
    return found.log_sd.to_numpy(), found.n_sizes.to_numpy(), found.doublings.to_numpy()


def widths(found: pd.DataFrame) -> dict[float, tuple[float, ...]]:
    """WIDTHS by quantile regression."""
    columns = width_columns(*_read_by_widths(found))
    off = found.off.to_numpy()
    # Of a cell each series is one voice, and each cell weighs the same.
    voices = found.assign(weight=1 / found.groupby(["given", "reach", "name"]).off.transform("size"))
    weight = (voices.weight / voices.groupby(["given", "reach"]).weight.transform("sum")).to_numpy()

    def fitted(level: float) -> tuple[float, ...]:
        def loss(b: Floats) -> float:
            if min(b[1], b[2]) < 0:
                return 1e3
            error = off - np.sign(level - 0.5) * np.exp(np.clip(columns @ b, -8, 6))
            return float((weight * np.where(error > 0, level, level - 1) * error).sum())

        options = {"maxiter": 4000, "xatol": 1e-3, "fatol": 1e-8}
        ended = []
        for start in (0.3, 0.6, 0.8):
            at = np.array([0, start, 0.5, 0])
            for _ in range(3):
                best = minimize(loss, at, method="Nelder-Mead", options=options)
                at = best.x
            ended.append(best)
        return tuple(float(value) for value in min(ended, key=lambda one: one.fun).x.round(2))

    return {level: fitted(level) for level in WIDTHS}


def judged(found: pd.DataFrame) -> pd.DataFrame:
    """The same with hits and widths (factors) of both intervals, by the widths that the other codes give."""
    parts = []
    for code, own in found.groupby("code"):
        of_others = widths(found[found.code != code])
        ends = log_quantiles(np.zeros(len(own)), *_read_by_widths(own), of_others)
        low95, low80, _, high80, high95 = ends.T
        parts.append(own.assign(
            in80=own.off.between(low80, high80), in95=own.off.between(low95, high95),
            span80=np.exp(high80 - low80), span95=np.exp(high95 - low95), error=100 * np.abs(np.expm1(-own.off)),
        ))  # fmt: skip
    return pd.concat(parts)


def is_ok(rows: pd.DataFrame) -> "pd.Series[bool]":
    """Whether an answer is ok by its span and the number of sizes it rests on."""
    least = np.select([rows.reach == 0, rows.doublings <= 1], [LEAST_SIZES, LEAST_BEYOND], LEAST_FAR)
    return (rows.span80 <= MOST_OK_SPAN) & (rows.n_sizes >= least)


def show_coverage(found: pd.DataFrame) -> None:
    """Print coverage by cell, each series one voice, beside the spread of the truth, and what `ok` means."""
    rows = judged(found)
    cell = ["given", "reach"]
    by_series = rows.groupby([*cell, "code", "name"])[["in80", "in95", "span80", "span95"]].mean()
    shown = by_series.groupby(cell).agg({"in80": "mean", "in95": "mean", "span80": "median", "span95": "median"})
    shown.insert(0, "series", by_series.groupby(cell).size())
    ends = rows.groupby(cell).off.quantile([0.025, 0.1, 0.9, 0.975]).unstack()
    shown["truth80"], shown["truth95"] = np.exp(ends[0.9] - ends[0.1]), np.exp(ends[0.975] - ends[0.025])
    print(shown.round(2).to_string())
    for name, part in (("all", rows), ("2x, from 3 to 5 sizes", rows[(rows.reach == 1) & (rows.n_sizes >= 3)])):
        ok, rest = part[is_ok(part)], part[~is_ok(part)]
        print(f"ok, {name}: {len(ok) / len(part):.0%} of {len(part)}, error {ok.error.mean():.1f}%, 80% holds "
              f"{ok.in80.mean():.0%}; error of the others {rest.error.mean():.1f}%")  # fmt: skip


def main() -> None:
    """Print the tables of measured codes and of simulated ones, and coverage over both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="?", default=DATA)
    parser.add_argument("--extrap", metavar="PYTHON")
    parser.add_argument("--widths", action="store_true")
    options = parser.parse_args()
    if not options.data.exists():
        print(f"skipped: {options.data} is not there")
        return
    warnings.simplefilter("ignore")
    sets = {"measured": measured(options.data), "simulated": simulated(options.data)}
    found = pd.concat([answers(series) for series in sets.values()], ignore_index=True)
    if options.widths:
        print("\n".join(f"    {level}: {end}," for level, end in widths(found).items()))
        return
    peers = dict(PEERS)
    if options.extrap:
        predict = asked_of(options.extrap)
        peers |= {way: partial(predict, way=way) for way in WAYS}
    for name, series in sets.items():
        print(f"{name}: {series.name.nunique()} series of {series.code.nunique()} codes")
        print(table(errors(series, peers), np.random.default_rng(0)).round(1).to_string())
    show_coverage(found)


if __name__ == "__main__":
    main()
