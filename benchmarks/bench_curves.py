"""Curves of measured codes, predicted from their 3, 4 or 5 smallest sizes: errors, coverage and `ok`, codes left out.

python -m benchmarks.bench_curves [DATA] [--extrap PYTHON] [--factors]

DATA as of scaling_data.py. An error is the mean of |predicted/measured - 1| over a series' sizes near 2, 4 or 8 times
the largest given one, then over series; `in` are sizes between others, every second one given. The interval of the
mean over 2 and 4 times is a bootstrap over codes. Coverage and `ok` use factors learnt from the other codes; --factors
prints those of all codes, as calibration.py has them. PYTHON is one with `extrap` 4.2.5 installed.
"""

import argparse
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.optimize import nnls

from benchmarks.bench_extrap import WAYS, asked_of
from benchmarks.scaling_data import DATA, measured, simulated
from pipeline.arrays import Floats, Ints
from pipeline.axes import MOST_OK_SPAN
from pipeline.scaling.calibration import MOST_DOUBLINGS, MOST_SIZES, rests_on
from pipeline.scaling.curves import PREDICTORS, PredictionTask, observed_series

GIVEN = (1, 2, 3, 4, 5, "in")
SHOWN = (3, 4, 5, "in")
LEVELS = (0.025, 0.1, 0.9, 0.975)
POOLED_CODES = 5.0
"""Codes in a cell from which its own factors weigh half against those of its reach, whatever the number of sizes."""


@dataclass(frozen=True)
class Question:
    """Series of one way of giving sizes, and per target its row in `series`, doublings beyond and runtime (s)."""

    asked: PredictionTask
    series: Ints
    doublings: Floats
    measured_s: Floats


def question(series: pd.DataFrame, given: int | str) -> Question:
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
    kept, targets = pd.concat(seen), pd.concat(asked)
    offsets = np.cumsum([0, *(len(one) for one in seen)]).astype(np.int64)
    task = PredictionTask(
        offsets, np.array([codes.index(one.code.iloc[0]) for one in seen]), kept.procs.to_numpy(float),
        kept.runtime_s.to_numpy(float), kept.n_runs.to_numpy(float), kept.log_sd.to_numpy(float),
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
        for i in range(asked.offsets.size - 1):
            own, rows = slice(asked.offsets[i], asked.offsets[i + 1]), asked.target_series == i
            found[rows] = curve(asked.procs[own], asked.runtime_s[own], asked.target_procs[rows])
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
    for given in SHOWN:
        one = question(series, given)
        column = "in" if given == "in" else [f"{given} to {2**n}x" for n in _reach(one.doublings)]
        told = series.loc[one.series, ["code", "name"]].reset_index(drop=True)
        for name, predict in peers.items():
            error = 100 * np.abs(predict(one.asked) / one.measured_s - 1)
            rows.append(told.assign(peer=name, column=column, error=error))
    return pd.concat(rows).groupby(["peer", "column", "code", "name"], as_index=False).error.mean()


def _reach(doublings: Floats) -> Ints:
    return np.clip(np.floor(doublings + 0.5), 1, MOST_DOUBLINGS).astype(int)


def table(found: pd.DataFrame, rng: np.random.Generator, draws: int = 500) -> pd.DataFrame:
    """Mean error by peer and column; `all` over 2 and 4 times, its 90% interval over draws of codes; `by code`."""
    near = [f"{n} to {reach}x" for n in (3, 4, 5) for reach in (2, 4)]
    shown = found.pivot_table(index="peer", columns="column", values="error")
    shown["all"] = shown[near].mean(axis=1)
    sums = found.pivot_table(index="code", columns=["peer", "column"], values="error", aggfunc=["sum", "count"]).fillna(
        0
    )
    drawn = rng.multinomial(len(sums), np.full(len(sums), 1 / len(sums)), draws)
    means = (drawn @ sums["sum"]) / (drawn @ sums["count"])
    means.columns = sums["sum"].columns
    overall = pd.DataFrame({peer: means[peer][near].mean(axis=1) for peer in shown.index})
    shown["low"], shown["high"] = overall.quantile(0.05), overall.quantile(0.95)
    by_code = found.groupby(["peer", "column", "code"]).error.mean().groupby(["peer", "column"]).mean().unstack()
    shown["by code"] = by_code[near].mean(axis=1)
    return shown.sort_values("all")


def standardised(series: pd.DataFrame) -> pd.DataFrame:
    """Per target of every way: code, name, place in FACTORS, error of `walltime` in log and in standard deviations."""
    parts = []
    for given in GIVEN:
        one = question(series, given)
        observed = observed_series(one.asked, one.asked.application)
        curve = observed.curve(one.asked.target_series, one.asked.target_procs)
        log_sd = np.hypot(curve.log_sd, observed.run_sd[one.asked.target_series])
        off = np.log(one.measured_s) - curve.log_s
        place = rests_on(observed.sizes, one.asked.target_series, one.asked.target_procs)
        told = series.loc[one.series, ["code", "name"]].reset_index(drop=True)
        parts.append(told.assign(given=str(given), place=place, off=off, log_sd=log_sd, z=off / log_sd))
    found = pd.concat(parts, ignore_index=True)
    found["weight"] = _voices(found)
    return found


def _voices(found: pd.DataFrame) -> pd.Series:
    """Of a place each code weighs the root of its number of series, each series alike."""
    n_series = found.groupby(["place", "code"]).name.transform("nunique")
    return 1 / (np.sqrt(n_series) * found.groupby(["place", "code", "name"]).name.transform("size"))


def factors(found: pd.DataFrame) -> Floats:
    """Rows of FACTORS: quantiles of a place shrunk to those of its reach; no nearer reach has a wider end."""
    result = np.zeros((1 + MOST_SIZES * MOST_DOUBLINGS, len(LEVELS)))
    reach = np.where(found.place == 0, -1, (found.place - 1) % MOST_DOUBLINGS)
    for place in range(len(result)):
        own = found[found.place == place]
        pool = found[reach == (-1 if place == 0 else (place - 1) % MOST_DOUBLINGS)]
        share = own.code.nunique() / (own.code.nunique() + POOLED_CODES)
        result[place] = share * _quantiles(own) + (1 - share) * _quantiles(pool)
        if place > 0 and (place - 1) % MOST_DOUBLINGS:
            wider = np.maximum(np.abs(result[place]), np.abs(result[place - 1])) * np.sign(result[place])
            result[place, [0, 3]] = wider[[0, 3]]
    return result


def _quantiles(rows: pd.DataFrame) -> Floats:
    ordered = rows.sort_values("z")
    passed = ordered.weight.cumsum() - 0.5 * ordered.weight
    return np.interp(LEVELS, passed / ordered.weight.sum(), ordered.z)


def judged(found: pd.DataFrame) -> pd.DataFrame:
    """The same with hits and widths (factors) of both intervals, with factors that the other codes give."""
    parts = []
    for code, own in found.groupby("code"):
        low95, low80, high80, high95 = factors(found[found.code != code])[own.place].T
        parts.append(own.assign(
            in80=own.z.between(low80, high80), in95=own.z.between(low95, high95),
            span80=np.exp((high80 - low80) * own.log_sd), span95=np.exp((high95 - low95) * own.log_sd),
            error=100 * np.abs(np.expm1(-own.off)),
        ))  # fmt: skip
    return pd.concat(parts)


def place_name(place: int) -> str:
    """As in "3 sizes, 4x"."""
    n_sizes, reach = divmod(place - 1, MOST_DOUBLINGS)
    return "between" if place == 0 else f"{n_sizes + 1} sizes, {2 ** (reach + 1)}x"


def show_coverage(found: pd.DataFrame) -> None:
    """Print coverage by cell, each series one voice, and what `ok` means."""
    rows = judged(found)
    by_series = rows.groupby(["place", "code", "name"])[["in80", "in95", "span80", "span95"]].mean()
    cells = by_series.groupby("place").agg({"in80": "mean", "in95": "mean", "span80": "median", "span95": "median"})
    cells.insert(0, "series", by_series.groupby("place").size())
    print(cells.rename(place_name).round(2).to_string())
    for name, part in (("all", rows), ("beyond the sizes", rows[rows.place > 0])):
        ok, rest = part[part.span80 <= MOST_OK_SPAN], part[part.span80 > MOST_OK_SPAN]
        print(f"ok, {name}: {len(ok) / len(part):.0%} of {len(part)}, error {ok.error.mean():.1f}%, 80% holds "
              f"{ok.in80.mean():.0%}; error of the others {rest.error.mean():.1f}%")  # fmt: skip


def main() -> None:
    """Print the tables of measured codes and of simulated ones, and coverage over both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="?", default=DATA)
    parser.add_argument("--extrap", metavar="PYTHON")
    parser.add_argument("--factors", action="store_true")
    options = parser.parse_args()
    if not options.data.exists():
        print(f"skipped: {options.data} is not there")
        return
    warnings.simplefilter("ignore")
    sets = {"measured": measured(options.data), "simulated": simulated(options.data)}
    found = pd.concat([standardised(series) for series in sets.values()])
    if options.factors:
        for row, place in zip(factors(found), range(1 + MOST_SIZES * MOST_DOUBLINGS), strict=True):
            print("    (" + ", ".join(f"{value:.2f}" for value in row) + f"),  # {place_name(place)}")
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
