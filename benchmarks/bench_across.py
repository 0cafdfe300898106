"""One problem size from another: the target's 1, 2 or 3 smallest sizes and the whole series of the other.

python -m benchmarks.bench_across [DATA] [--factors]

DATA as of scaling_data.py: every pair of problem sizes of one code that ran alike, the base on more counts. Errors are
medians over a pair's other target sizes up to 8 times the largest given one, then means over pairs, per cent: of what
is published, of the target's own average and of the constant ratio. `worse` and `better` count pairs by more than 2
points.
Coverage uses factors of the other codes; --factors prints those of all, as problem_sizes.py has them.
"""

import argparse
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.scaling_data import DATA, archer, by_size, more_codes, namd, npb
from pipeline.arrays import Floats
from pipeline.scaling.problem_sizes import FACTORS, MIN_BASE_POINTS, SERVED, AcrossRules, across
from pipeline.scaling.series import SeriesBatch

GIVEN = (1, 2, 3)
REACH = 8 * 2**0.5
LEVELS = (0.025, 0.1, 0.9, 0.975)
SIMULATED = ("BT", "CG", "EP", "IS", "LU", "MG")


def one_series(procs: Floats, runtime_s: Floats, rules: AcrossRules) -> SeriesBatch:
    """Runtimes (s) of one problem size, by rising processor counts, as the average reads them."""
    return SeriesBatch(np.array([0, procs.size]), procs, runtime_s, np.full(procs.size, rules.run_log_sd**-2))


def pairs(folder: Path) -> Iterator[tuple[str, pd.DataFrame, pd.DataFrame]]:
    """Code, base and target, each with a row per size."""
    runs = pd.concat([archer(folder), namd(folder), more_codes(folder), *(npb(folder, size) for size in "AWS")])
    for (code, _), own in runs.groupby(["application", "series"]):
        parts = [by_size(part) for _, part in own.groupby("problem_size")]
        for base, target in permutations(parts, 2):
            if len(base) >= MIN_BASE_POINTS:
                yield str(code), base, target


def scored(folder: Path, rules: AcrossRules) -> tuple[pd.DataFrame, pd.DataFrame]:
    """A row per pair and number of sizes given; a row per target size of the pairs that borrow."""
    rows, points = [], []
    for number, (code, base, target) in enumerate(pairs(folder)):
        for given in (k for k in GIVEN if k < min(len(base), len(target))):
            known, asked = target[:given], target[given:]
            asked = asked[asked.procs <= REACH * known.procs.max()]
            if not len(asked):
                continue
            two = (one_series(*one[["procs", "runtime_s"]].to_numpy(float).T, rules) for one in (base, known))
            found = across(*two, asked.procs.to_numpy(float), rules)
            truth_s, status = asked.runtime_s.to_numpy(), found["status"]
            ways = {"published": found["runtime_s"], "own": found["own_s"], "ratio": found["ratio_s"]}
            told = {"code": code, "pair": number, "given": given, "status": status}
            rows.append(told | {k: 100 * float(np.median(np.abs(v / truth_s - 1))) for k, v in ways.items()})
            log_sd = np.log(found["runtime_s_hi80"] / found["runtime_s_lo80"]) / (FACTORS[2] - FACTORS[1])
            z = np.log(truth_s / found["runtime_s"]) / log_sd
            points += [told | {"z": one, "log_sd": sd} for one, sd in zip(z, log_sd, strict=True)]
    found_points = pd.DataFrame(points)
    return pd.DataFrame(rows), found_points[found_points.status.isin(SERVED)].reset_index(drop=True)


def factors(points: pd.DataFrame) -> np.ndarray:
    """Quantiles of z; of a code each pair alike, and the root of their number."""
    n_pairs = points.groupby("code").pair.transform("nunique")
    weight = 1 / (np.sqrt(n_pairs) * points.groupby(["pair", "given"]).z.transform("size"))
    order = np.argsort(points.z.to_numpy())
    weight = weight.to_numpy()[order]
    return np.interp(LEVELS, (np.cumsum(weight) - 0.5 * weight) / weight.sum(), points.z.to_numpy()[order])


def covered(points: pd.DataFrame) -> pd.DataFrame:
    """By number of sizes given: how often the intervals hold on codes left out, and the span of the 80% one."""
    parts = []
    for code, own in points.groupby("code"):
        low95, low80, high80, high95 = factors(points[points.code != code])
        hits = {"in80": own.z.between(low80, high80), "in95": own.z.between(low95, high95)}
        parts.append(own.assign(span80=np.exp((high80 - low80) * own.log_sd), **hits))
    means = {"in80": "mean", "in95": "mean", "span80": "median"}
    return pd.concat(parts).groupby("given").agg(means)


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """Per set, number of sizes given and whether the pair borrows: pairs, errors, worse, better."""
    told = rows.assign(
        set=np.where(rows.code.isin(SIMULATED), "simulated", "measured"), borrows=rows.status.isin(SERVED),
        worse=rows.published > rows.own + 2, better=rows.published < rows.own - 2, pairs=1,
    )  # fmt: skip
    sums = {"pairs": "sum", "published": "mean", "own": "mean", "ratio": "mean", "worse": "sum", "better": "sum"}
    return told.groupby(["set", "given", "borrows"]).agg(sums)


def main() -> None:
    """Print the summary, the codes that lose by borrowing, and coverage."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="?", default=DATA)
    parser.add_argument("--factors", action="store_true")
    options = parser.parse_args()
    if not options.data.exists():
        print(f"skipped: {options.data} is not there")
        return
    rows, points = scored(options.data, AcrossRules())
    if options.factors:
        print(factors(points).round(2).tolist())
        return
    print(summary(rows).round(1).to_string())
    by_code = rows[rows.status.isin(SERVED)].groupby(["given", "code"])[["published", "own"]].mean()
    print("worse by code:", by_code[by_code.published > by_code.own + 2].round(1).to_dict("index"))
    print(covered(points).round(2).to_string())


if __name__ == "__main__":
    main()
