"""Prints what `bench_inputs --out` wrote as the tables of benchmarks/inputs.md.

python -m benchmarks.inputs_table FILE.jsonl
"""

import argparse
import json
from pathlib import Path

import pandas as pd

METHODS = ("auto", "gp", "scikit-learn GP", "extra trees", "CatBoost", "LightGBM", "laws", "network", "nearest")


def accuracy_cell(found: pd.DataFrame) -> str:
    """Mean error, and its standard deviation over the seeds."""
    if not len(found):
        return ""
    apart = f" ± {_short(found['mean'].std())}" if len(found) > 1 else ""
    return f"{_short(found['mean'].mean())}{apart}"


def accuracy_table(rows: pd.DataFrame, methods: tuple[str, ...]) -> str:
    """Markdown: a line for each set and size, a column for each method."""
    lines = [f"| set, share of the runs | runs | {' | '.join(methods)} |", f"| --- | ---: |{' ---: |' * len(methods)}"]
    for (name, size, n), own in rows.groupby(["set", "size", "n"], sort=False):
        cells = [accuracy_cell(own[own["method"] == method]) for method in methods]
        lines.append(f"| {name}{f', {size:.0%}' if size < 1 else ''} | {n} | {' | '.join(cells)} |")
    return "\n".join(lines)


def comparison(rows: pd.DataFrame, method: str, other: str) -> str:
    """In how many cells a method has the smaller mean error, over the seeds that both have."""
    keys = ["set", "size", "seed"]
    both = rows[rows["method"] == method].merge(rows[rows["method"] == other], on=keys, suffixes=("", "_other"))
    cells = both.groupby(["set", "size"], sort=False)
    means = cells[["mean", "mean_other"]].mean()
    better = int((means["mean"] < means["mean_other"]).sum())
    return (
        f"{method} is better than {other} in {better} of {len(means)} cells ({int(cells.size().min())} seeds or more)."
    )


def _short(value: float) -> str:
    return f"{value:.2f}" if value < 2 else f"{value:.1f}"


def main() -> None:
    """Print every part that the file has."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    every = pd.DataFrame([json.loads(line) for line in parser.parse_args().file.read_text().splitlines()])
    for part, rows in every.groupby("part", sort=False):
        print(f"\n{part}\n")
        if part == "accuracy":
            print(accuracy_table(rows, METHODS), "\n")
            for other in ("scikit-learn GP", "extra trees", "CatBoost", "LightGBM"):
                print(comparison(rows, "auto", other))
            print(rows.groupby("method", sort=False).agg(seeds=("seed", "nunique"), cpu_s=("cpu_s", "sum")).round(0))
            continue
        print(rows.dropna(axis=1, how="all").round(2).to_string())


if __name__ == "__main__":
    main()
