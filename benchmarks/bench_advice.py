"""What following advice costs: measured and planted curves, of which the advice knows the 3, 4 or 5 smallest counts.

python -m benchmarks.bench_advice [DATA]

DATA as of scaling_data.py. A recommended count is judged by the whole curve: its true runtime, processor-hours, and
their product, each over that of the best count up to twice the largest one given (geometric mean over curves). The
rule beside it takes the largest given count whose measured efficiency is at least 50%. Planted curves have noise; their
`time_optimal_procs` is compared with the count of least runtime, by where that lies beside the largest given one.
"""

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from benchmarks.scaling_data import DATA, measured, simulated
from pipeline.arrays import Floats
from pipeline.scaling.advice import CostSettings
from pipeline.scaling.fitted_series import fit_and_predict, series_as_dicts, with_answers
from pipeline.scaling.series import REACH
from pipeline.tables import OBSERVATIONS

NOISE, N_PLANTED, LEAST_SIZES = 0.02, 100, 6
POWERS = {"time": (0, 1), "hours": (1, 1), "hours times time": (1, 2)}
ROLES = {"the fastest": "time", "the cheapest": "hours", "the best trade-off": "hours times time"}

Curve = Callable[[Floats], Floats]


def measured_curves(data: Path) -> tuple[pd.DataFrame, dict[str, Curve]]:
    """The series of six counts or more, and each as straight lines between its counts on logarithmic axes."""
    series = pd.concat([measured(data), simulated(data)])
    series = series[series.groupby("name").procs.transform("size") >= LEAST_SIZES]

    def curve(own: pd.DataFrame) -> Curve:
        x, y = np.log(own.procs.to_numpy(float)), np.log(own.runtime_s.to_numpy(float))
        return lambda n: np.exp(np.interp(np.log(n), x, y))

    return series, {name: curve(own) for name, own in series.groupby("name")}


def planted_curves(rng: np.random.Generator) -> tuple[pd.DataFrame, dict[str, Curve]]:
    """Serial share, linear or logarithmic overhead, or a plateau; single runs on 1 to 256 processors with noise."""
    parts, curves, procs = [], {}, 2.0 ** np.arange(9)
    for k in range(N_PLANTED):
        serial, bend = 10.0 ** rng.uniform(-4, -0.3), 2.0 ** rng.uniform(1, 8)
        laws: tuple[Curve, ...] = (
            lambda n, s=serial: 1000 * (s + (1 - s) / n),
            lambda n, s=serial, b=bend: 1000 * (s + (1 - s) / n + (1 - s) * (n - 1) / b**2),
            lambda n, s=serial, b=bend: 1000 * (s + (1 - s) / n + (1 - s) * np.log2(n) / b),
            lambda n, b=bend: 1000 / np.minimum(n, b),
        )
        name, curves[f"{k:03}"] = f"{k:03}", laws[k % len(laws)]
        runtime_s = curves[name](procs) * np.exp(NOISE * rng.standard_normal(len(procs)))
        parts.append(
            pd.DataFrame({"name": name, "procs": procs, "runtime_s": runtime_s, "n_runs": 1, "log_sd": np.nan})
        )
    return pd.concat(parts), curves


def given(series: pd.DataFrame, n_sizes: int) -> pd.DataFrame:
    """The smallest counts of each series that has more."""
    ordered = series.sort_values(["name", "procs"])
    has_more = ordered.groupby("name").procs.transform("size") > n_sizes
    return ordered[has_more & (ordered.groupby("name").cumcount() < n_sizes)]


def advised(seen: pd.DataFrame) -> list[dict]:
    """The series with recommended counts."""
    n = len(seen)
    table = OBSERVATIONS.build(
        group_id=seen.name.tolist(), procs=seen.procs.astype(int).tolist(), runtime_s_median=seen.runtime_s.tolist(),
        runtime_s_q10=seen.runtime_s.tolist(), runtime_s_q90=seen.runtime_s.tolist(),
        n_jobs=seen.n_runs.astype(int).tolist(), log_sd=pa.array(seen.log_sd, from_pandas=True),
        first_start_s=[0] * n, last_end_s=[1] * n,
    )  # fmt: skip
    tables = fit_and_predict(table, [], None)
    return with_answers(series_as_dicts(tables), tables, None, CostSettings())


def value(name: str, procs: Floats, runtime_s: Floats) -> Floats:
    """What is to be small: time, hours, or their product."""
    of_procs, of_time = POWERS[name]
    return procs**of_procs * runtime_s**of_time


def regrets(series: list[dict], curves: dict[str, Curve], largest: dict[str, float]) -> pd.DataFrame:
    """Per series and choice, its time, hours and product over those of the count that is best in the choice's sense."""
    rows = []
    for one in series:
        curve, sizes = curves[one["series"]], np.array([row["procs"] for row in one["observations"]], float)
        seen_s = np.array([row["runtime_s_median"] for row in one["observations"]])
        every = np.unique(np.geomspace(sizes[0], min(REACH * sizes[-1], largest[one["series"]]), 200).round())
        efficient = sizes[sizes[0] * seen_s[0] >= 0.5 * sizes * seen_s][-1]
        picked = {why: row["procs"] for row in one["choices"] for why in ROLES if why in every_role(row["why"])}
        picked |= {"50% efficiency": efficient}
        for why, n in picked.items():
            names = [ROLES[why]] if why in ROLES else list(POWERS)
            for name in names:
                best = every[value(name, every, curve(every)).argmin()]
                at = np.array([n, best], float)
                rows.append({"choice": why, "best by": name, "is beyond": n > sizes[-1]} | {
                    f"{other} over best's": np.divide(*value(other, at, curve(at))) for other in POWERS
                })  # fmt: skip
    return pd.DataFrame(rows)


def every_role(why: str) -> list[str]:
    """The roles that a choice has."""
    return list(ROLES) if why == "the best in time and cost" else why.split(" and ")


def time_optimal(series: list[dict], curves: dict[str, Curve]) -> pd.DataFrame:
    """Of planted curves by where the least runtime lies: how often it is found, and how much slower that count is."""
    rows = []
    for one in series:
        curve, largest = curves[one["series"]], max(row["procs"] for row in one["observations"])
        every = np.arange(1, 16 * largest + 1, dtype=float)
        best = every[np.argmax(curve(every) <= 1.01 * curve(every).min())]
        found = (one["scalability"] or {}).get("time_optimal_procs")
        if best <= 4 * largest:
            over = curve(np.array([found]))[0] / curve(every).min() - 1 if found else np.nan
            place = next(name for name, most in (("inside", 0.7), ("2x", 2), ("4x", 4)) if best <= most * largest)
            rows.append({"least at": place, "found": bool(found), "slower": over})
    return pd.DataFrame(rows)


def main() -> None:
    """Print mean regrets by choice, of measured and of planted curves."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="?", default=DATA)
    options = parser.parse_args()
    sets = {"planted": planted_curves(np.random.default_rng(0))}
    if options.data.exists():
        sets["measured"] = measured_curves(options.data)
    else:
        print(f"skipped the measured curves: {options.data} is not there")
    for name, (series, curves) in sets.items():
        largest = {one: np.inf if name == "planted" else own.procs.max() for one, own in series.groupby("name")}
        by_count = {n_sizes: advised(given(series, n_sizes)) for n_sizes in (3, 4, 5)}
        found = pd.concat(regrets(one, curves, largest) for one in by_count.values())
        print(f"{name}: {len(curves)} curves, each given 3, 4 and 5 counts")
        over = [column for column in found if "over" in column]
        shown = found.assign(**np.log(found[over])).groupby(["best by", "choice"]).mean()
        print(shown.assign(**np.exp(shown[over])).round(3).to_string())
        if name == "planted":
            optimal = pd.concat(time_optimal(one, curves) for one in by_count.values())
            by_place = optimal.groupby("least at")
            print(by_place.agg(curves=("found", "size"), found=("found", "mean"), slower=("slower", "mean")).round(3))


if __name__ == "__main__":
    main()
