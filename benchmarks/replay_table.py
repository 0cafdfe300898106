"""What estimates gain in replays of logs: the tables of benchmarks/replay.md.

python benchmarks/replay_table.py LOG... [--shakes 20] [--part-shakes 10] [--seed 1] [--unscored 0] [--keep FOLDER]

First the mean bounded slowdown of every case and log, medians over shaken replays, then long waits, then what each part
of the recipe brings: the recipe with one part replaced. --keep stores the estimates, which take most of the time, in a
folder, and reads them from there. --unscored: the first share of the jobs that the first two tables do not score, as a
third, on which the recipe was chosen. A log without waits is named and left out of the means.
"""

import argparse
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from flows.services.replaying import ReplayTask, quantiles, replay_task, subject_of  # noqa: E402
from pipeline.arrays import Floats  # noqa: E402
from pipeline.estimate.history import History  # noqa: E402
from pipeline.estimate.score import QUANTILES  # noqa: E402
from pipeline.schedule.engine import (  # noqa: E402
    Correction,
    Policy,
    ReplayOptions,
    replay,
)
from pipeline.schedule.figures import bounded_slowdown  # noqa: E402
from pipeline.schedule.what_if import PLANNED_SHARE, Estimates, Subject, aged, answers, cases, expected, plan, what_if  # noqa: E402  # noqa: E402
from pipeline.schedule.workload import (  # noqa: E402
    Shakes,
    Workload,
    shaken,
)

Row = Mapping[str, Any]
OURS = ReplayOptions(Policy.EASY_SJBF, Correction.REQUEST, guard=True)
Part = tuple[ReplayOptions, Floats | None, Floats | None]
"""Options, reservation and order."""


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", nargs="+", type=Path)
    parser.add_argument("--shakes", type=int, default=20)
    parser.add_argument("--part-shakes", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--unscored", type=float, default=0.0)
    parser.add_argument("--keep", type=Path)
    asked = parser.parse_args()
    chosen = (
        cases([Policy.EASY_SJBF], list(Estimates)) + cases([Policy.EASY], [Estimates.PERFECT, Estimates.WALLTIME])[1:]
    )
    subjects = [subject(replay_task(log, cases=chosen, shakes=Shakes()), asked.keep) for log in asked.logs]
    for one in subjects:
        if not one.has_waits:
            print(f"{one.log} states no waits and is left out.")
    subjects = [without_first(one, asked.unscored) for one in subjects if one.has_waits]
    tables = {short(one.log): what_if(one, chosen, Shakes(asked.shakes, asked.seed)).to_pylist() for one in subjects}
    print("\n".join([*slowdowns(tables), "", *long_waits(tables), ""]))
    if asked.part_shakes:
        found = {short(one.log): part_changes(one, Shakes(asked.part_shakes, asked.seed)) for one in subjects}
        print("\n".join(parts_table(found)))


def subject(task: ReplayTask, keep: Path | None) -> Subject:
    """The log with its estimates, which are read from the folder if they are there."""

    def kept(past: History, own: ReplayTask, n_rows: int) -> dict[str, Floats]:
        path = None if keep is None else keep / f"{own.log}.npz"
        if path is not None and path.exists():
            return dict(np.load(path))
        found = quantiles(past, own, n_rows)
        if path is not None:
            np.savez(path, **found)
        return found

    return subject_of(task, kept)[0]


def without_first(one: Subject, share: float) -> Subject:
    """The log without a score for the first share of its jobs."""
    return replace(one, since_s=float(one.work.submit_s[int(share * len(one.work))])) if share else one


def short(log: str) -> str:
    """The log's name without its year, version and ending."""
    return "-".join(part for part in log.split(".", maxsplit=1)[0].split("-") if not part.isdigit())


def line(cells: Iterable[object]) -> str:
    """One row of a table."""
    return f"| {' | '.join(map(str, cells))} |"


def slowdowns(tables: Mapping[str, list[Row]]) -> Iterator[str]:
    """Per case the median slowdown on each log with the median change, and the mean change."""
    yield line(["policy, estimates", *tables, "mean"])
    yield line(["---"] * (len(tables) + 2))
    whole = {log: {name(row): row for row in rows if is_whole(row)} for log, rows in tables.items()}
    for case in next(iter(whole.values())):
        rows = [whole[log][case] for log in tables]
        cells = [f"{row['slowdown_mean']:.1f} ({100 * row['slowdown_change']:+.0f}%)" for row in rows]
        yield line([case, *cells, f"{100 * np.mean([row['slowdown_change'] for row in rows]):+.1f}%"])


def long_waits(tables: Mapping[str, list[Row]]) -> Iterator[str]:
    """Per case and log the mean wait, its 99% quantile, the longest and the widest tenth's mean, h."""
    yield line(["mean / 99% / longest wait, mean of the widest tenth, h", *tables])
    yield line(["---"] * (len(tables) + 1))
    names = ("wait_mean_s", "wait_p99_s", "wait_longest_s", "wait_wide_mean_s")
    whole = {log: {name(row): row for row in rows if is_whole(row)} for log, rows in tables.items()}
    for case in next(iter(whole.values())):
        cells = [[f"{whole[log][case][one] / 3600:.1f}" for one in names] for log in tables]
        yield line([case, *(f"{' / '.join(cell[:3])}, {cell[3]}" for cell in cells)])


def is_whole(row: Row) -> bool:
    """Whether the row has the medians over all jobs."""
    return row["part"] == "all" and row["statistic"] == "median"


def name(row: Row) -> str:
    """The case in words."""
    return f"{row['policy']}, {row['estimates']}"


def part_changes(one: Subject, shakes: Shakes) -> dict[str, tuple[float, float, float, float]]:
    """Per variant of the recipe the medians over the shakes: change of slowdown, and of wait, p99, longest (ratios)."""
    found: dict[str, list[list[float]]] = {}
    for nth in range(shakes.n):
        work, places = shaken(one.work, shakes, nth)
        counted = places >= len(work) // 100
        base = figures(work, (ReplayOptions(), None, None), counted)
        for variant, part in variants(work, one.quantiles_s):
            found.setdefault(variant, []).append(
                [a / b for a, b in zip(figures(work, part, counted), base, strict=True)]
            )
    return {variant: tuple(np.median(rows, axis=0)) for variant, rows in found.items()}  # type: ignore[misc]


def figures(work: Workload, part: Part, counted: Any) -> list[float]:
    """Mean slowdown, mean wait, its 99% quantile, and the longest."""
    done = replay(work, *part)
    wait_s = (done.start_s - work.submit_s)[counted]
    slowdown = bounded_slowdown(work, done)[counted].mean()
    return [slowdown, wait_s.mean(), float(np.quantile(wait_s, 0.99)), float(wait_s.max())]


def variants(work: Workload, quantiles_s: Mapping[str, Floats]) -> Iterator[tuple[str, Part]]:
    """The recipe, then each with one part replaced."""
    own = plan(Estimates.WALLTIME, work, quantiles_s)
    reservation_s, order = own.reservation_s, own.order
    request_s, run_s = work.request_s.astype(np.float64), work.run_s.astype(np.float64)
    found = answers(quantiles_s["walltime"], work)
    median_s, low_s = found[:, QUANTILES.index(0.50)], found[:, QUANTILES.index(0.10)]
    yield "the recipe", (OURS, reservation_s, order)
    yield "order: submit (EASY)", (replace(OURS, policy=Policy.EASY), reservation_s, None)
    yield "order: request", (OURS, reservation_s, request_s)
    yield "order: aged request", (OURS, reservation_s, aged(request_s, work))
    yield "order: expected runtime, not aged", (OURS, reservation_s, expected(found))
    yield "order: median, aged", (OURS, reservation_s, aged(median_s, work))
    yield "order: expected area, aged", (OURS, reservation_s, aged(expected(found), work) + np.log(work.procs))
    yield "order: runtime (perfect)", (OURS, reservation_s, run_s)
    yield "reservation: request", (OURS, request_s, order)
    yield "reservation: median", (OURS, median_s, order)
    yield "reservation: 10% quantile", (OURS, low_s, order)
    yield "reservation: a tenth of the request", (OURS, 0.1 * request_s, order)
    yield "reservation: 1 s", (OURS, np.ones(len(work)), order)
    yield "reservation: runtime (perfect)", (OURS, run_s, order)
    yield "correction: Tsafrir's increments", (replace(OURS, correction=Correction.INCREMENTS), reservation_s, order)
    yield "correction: doubling", (replace(OURS, correction=Correction.DOUBLING), reservation_s, order)
    yield "no guard", (replace(OURS, guard=False), reservation_s, order)
    for label, method in (("the table, a day old", "table"), ("MetaCentrum's rule", "largest_of_15")):
        other_s = answers(quantiles_s[method], work)
        middle_s = other_s[:, QUANTILES.index(0.50)]
        mean_s = middle_s if method == "largest_of_15" else expected(other_s)
        yield f"estimator: {label}", (OURS, PLANNED_SHARE * middle_s, aged(mean_s, work))
    yield "estimator: request", (OURS, PLANNED_SHARE * request_s, aged(request_s, work))
    yield "estimator: perfect", (OURS, PLANNED_SHARE * run_s, aged(run_s, work))


def parts_table(found: Mapping[str, Mapping[str, tuple[float, ...]]]) -> Iterator[str]:
    """Per variant the change of slowdown on each log, and means over the logs."""
    yield line(["variant", *found, "mean", "mean wait", "99%", "longest, worst log"])
    yield line(["---"] * (len(found) + 5))
    for variant in next(iter(found.values())):
        rows = np.array([own[variant] for own in found.values()])
        cells = [f"{100 * (change - 1):+.0f}%" for change in rows[:, 0]]
        means = 100 * (rows[:, :2].mean(axis=0) - 1)
        yield line(
            [
                variant,
                *cells,
                f"{means[0]:+.1f}%",
                f"{means[1]:+.0f}%",
                f"x {rows[:, 2].mean():.2f}",
                f"x {rows[:, 3].max():.2f}",
            ]
        )


if __name__ == "__main__":
    main()
