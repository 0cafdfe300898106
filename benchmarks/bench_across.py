"""NAS kernels across problem sizes: A from W and W from S, from the base's series and the target's two smallest sizes.

python -m benchmarks.bench_across [RUNS.csv] [--json]

RUNS.csv has benchmark, class, nprocs, platform, time_s. Errors are medians over a pair's other target sizes, per cent.
"""

import argparse
import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pipeline.scaling.problem_sizes import SizePair, across
from pipeline.scaling.rules import AcrossRules

RUNS = Path(__file__).parents[2] / "shared" / "data" / "scaling" / "npb-smpi" / "runs.csv"
CLASSES = (("W", "A"), ("S", "W"))


def size_pairs(runs: Path) -> list[tuple[str, SizePair, np.ndarray, np.ndarray]]:
    """Name, what is given, and the sizes and runtimes to be predicted."""
    table = pd.read_csv(runs)
    median_s = table.groupby(["benchmark", "platform", "class", "nprocs"]).time_s.median()
    found = []
    for (benchmark, platform), (base, target) in product(
        sorted(set(zip(table.benchmark, table.platform, strict=True))), CLASSES
    ):
        if {(benchmark, platform, base), (benchmark, platform, target)} <= set(median_s.index.droplevel(3)):
            b, t = median_s[benchmark, platform, base], median_s[benchmark, platform, target]
            given = SizePair(*_arrays(b), *_arrays(t[:2]))
            found.append((f"{benchmark} {platform} {target} from {base}", given, *_arrays(t[2:])))
    return found


def _arrays(series: Any) -> tuple[np.ndarray, np.ndarray]:
    return series.index.to_numpy(np.float64), series.to_numpy(np.float64)


def scored(pairs: list[tuple[str, SizePair, np.ndarray, np.ndarray]]) -> list[dict[str, Any]]:
    """Per pair: errors of what is published, of the joint fit without its guard, of the target's own default

    prediction and of the constant ratio; coverage, width (log); the status.
    """
    settings, unguarded = AcrossRules(), AcrossRules(own_share=0, is_guarded=False)
    given, wanted = [pair for _, pair, _, _ in pairs], [procs for _, _, procs, _ in pairs]
    published, joint = across(given, wanted, settings), across(given, wanted, unguarded)
    return [
        {
            "pair": name,
            "published": _error(one.runtime_s, truth_s),
            "joint": _error(other.runtime_s, truth_s),
            "own": _error(one.own_s, truth_s),
            "ratio": _error(one.ratio_s, truth_s),
            "inside80": float(((one.lo80_s <= truth_s) & (truth_s <= one.hi80_s)).mean()),
            "inside95": float(((one.lo95_s <= truth_s) & (truth_s <= one.hi95_s)).mean()),
            "width80": float(np.log(one.hi80_s / one.lo80_s).mean()),
            "same": one.same,
            "status": one.status(settings),
            "power": one.power,
        }
        for (name, _, _, truth_s), one, other in zip(pairs, published, joint, strict=True)
    ]


SHARES = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5)
"""Weights of the own prediction among which the others' kernels choose."""


Pairs = list[tuple[str, SizePair, np.ndarray, np.ndarray]]


def chosen_by_others(pairs: Pairs) -> dict[str, tuple[float, float, float]]:
    """Per pair: the share that the other kernels choose, the error with it, and the own prediction's.

    Chosen are the fewest pairs more than 2 points worse than the own prediction, then the least mean error.
    """
    found = across([pair for _, pair, _, _ in pairs], [n for _, _, n, _ in pairs], AcrossRules(own_share=0))
    own = np.array([_error(one.own_s, truth_s) for one, (*_, truth_s) in zip(found, pairs, strict=True)])
    errors = np.array(
        [
            [_error(one.runtime_s ** (1 - share) * one.own_s**share, truth_s) for share in SHARES]
            for one, (*_, truth_s) in zip(found, pairs, strict=True)
        ]
    )
    worse, names = errors > own[:, None] + 2, [name for name, *_ in pairs]
    kernel = np.array([name.split()[0] for name in names])
    held_out = {}
    for row, name in enumerate(names):
        others = kernel != kernel[row]
        order = np.lexsort((errors[others].mean(axis=0), worse[others].sum(axis=0)))
        held_out[name] = SHARES[order[0]], float(errors[row, order[0]]), float(own[row])
    return held_out


def _error(runtime_s: np.ndarray, truth_s: np.ndarray) -> float:
    return float(np.median(np.abs(runtime_s / truth_s - 1))) * 100


def main() -> None:
    """Print a line a pair and the summary."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=Path, nargs="?", default=RUNS)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    if not args.runs.exists():
        print(f"{args.runs} is not there: give a CSV of runs.")
        return
    pairs = size_pairs(args.runs)
    rows = scored(pairs)
    for row in rows:
        print(
            json.dumps(row)
            if args.json
            else "  ".join(f"{k} {v:.2f}" if isinstance(v, float) else v for k, v in row.items())
        )
    for _, target in CLASSES:
        own = [row for row in rows if f" {target} from" in row["pair"]]
        for name in ("published", "joint", "own", "ratio", "inside80", "inside95", "width80"):
            values = [row[name] for row in own]
            print(f"{target}: {name} median {np.median(values):.1f} mean {np.mean(values):.3f}")
    misled = [row for row in rows if row["ratio"] > 25]
    noticed = sum(row["status"] != "same_shape" for row in misled)
    print(f"constant ratio more than 25% off: {len(misled)}, of which the test notices {noticed}; ", end="")
    suspected = sum(row["status"] != "same_shape" for row in rows) - noticed
    print(f"of the other {len(rows) - len(misled)} it suspects {suspected}")
    for name in ("published", "joint"):
        worse = [row["pair"] for row in rows if row[name] > row["own"] + 2]
        print(f"{name} worse than own by more than 2 points: {len(worse)} of {len(rows)}: {', '.join(worse)}")
    held_out = chosen_by_others(pairs)
    worse = [f"{name} (share {share})" for name, (share, error, own_error) in held_out.items() if error > own_error + 2]
    mean = np.mean([error for _, error, _ in held_out.values()])
    print(f"share chosen by the other kernels: mean {mean:.1f}, worse than own: {len(worse)}: {', '.join(worse)}")


if __name__ == "__main__":
    main()
