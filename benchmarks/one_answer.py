"""Whether a query and a row of PREDICTIONS are one answer, for every row of published folders: a line a folder.

    .venv/bin/python -m benchmarks.one_answer FOLDER ...

unequal: rows whose median, or an end of the 80% interval, differs from the answer to a job with the row's values that
is submitted at any time of the next seven days;
speedup: rows whose runtime times speed-up differs from that of the group's first row by more than rounding; between:
pairs of neighbouring counts with a count between them, and those whose answer there lies outside theirs; in law: those
of them where the law says so (a pattern of counts, or a minimum between the two); beyond: rows whose median lies above
twice the longest run of the log, and above the request.
"""

import sys
from collections.abc import Sequence
from itertools import pairwise, starmap
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

from flows.services.quantities import LATER
from flows.services.query.answers import answers, load_state
from pipeline.columns import TEMPLATE_COLUMNS
from pipeline.estimate.predictions import TYPICAL
from pipeline.publish import load_manifest

NAMES = ("procs", *dict.fromkeys((*TEMPLATE_COLUMNS, *TYPICAL)))
ENDS = {"runtime_s_q10": "runtime_s_lo80", "runtime_s_q90": "runtime_s_hi80"}
ROUNDING = 1e-9
LAW = ("law", "law_here")

Row = dict[str, Any]


class Disagreements(NamedTuple):
    """Numbers of rows or pairs, as the columns say."""

    rows: int
    unequal: int
    speedup: int
    between: int
    outside: int
    in_law: int
    beyond: int


def disagreements(folder: Path) -> Disagreements:
    """What a published folder's queries and predictions disagree on."""
    manifest = load_manifest(folder)
    groups = {row["group_id"]: row for row in pq.read_table(manifest.path("groups")).to_pylist()}
    rows = pq.read_table(manifest.path("predictions")).to_pylist()
    jobs = [_job(groups[row["group_id"]], row) for row in rows]
    longest_s = pc.max(pq.read_table(manifest.path("jobs"), columns=["runtime_s"]).column(0)).as_py()
    found = answers(load_state(folder, len(jobs)), jobs)
    unequal = sum(not _is_equal(one, row) for one, row in zip(found, rows, strict=True))
    beyond = sum(row["runtime_s"] > max(2 * longest_s, row["requested_s"] or 0) for row in rows)
    outside = _outside(folder, rows, jobs)
    in_law = sum(law for is_outside, law in outside if is_outside)
    n_outside = sum(is_outside for is_outside, _ in outside)
    return Disagreements(len(rows), unequal, _speedups(rows), len(outside), n_outside, in_law, beyond)


def _job(group: Row, row: Row) -> Row:
    known = group | {name: value for name, value in row.items() if value is not None}
    return {name: known[name] for name in NAMES if known.get(name) is not None} | {"at": LATER}


def _is_equal(found: Row, row: Row) -> bool:
    ends_equal = (np.isclose(found[ours], row[theirs], rtol=1e-12, atol=0) for ours, theirs in ENDS.items())
    return found["runtime_s"] == row["runtime_s"] and all(ends_equal)


def _speedups(rows: Sequence[Row]) -> int:
    first: dict[str, float] = {}
    # A group whose efficiencies contradict each other has no speed-up.
    rows = [row for row in rows if row["speedup"] is not None]
    on_one_s = [row["runtime_s"] * row["speedup"] for row in rows]
    expected_s = [first.setdefault(row["group_id"], s) for row, s in zip(rows, on_one_s, strict=True)]
    return sum(starmap(lambda s, t: abs(s / t - 1) > ROUNDING, zip(on_one_s, expected_s, strict=True)))


def _outside(folder: Path, rows: Sequence[Row], jobs: Sequence[Row]) -> list[tuple[bool, bool]]:
    """Per pair of neighbours: whether the answer between lies outside theirs; whether a law is among the three."""
    pairs = [
        (job, other["procs"])
        for (row, job), (after, other) in pairwise(zip(rows, jobs, strict=True))
        if row["group_id"] == after["group_id"] and other["procs"] - job["procs"] > 1
    ]
    middle = [max(round((job["procs"] * above) ** 0.5), job["procs"] + 1) for job, above in pairs]
    asked = [
        job | {"procs": procs}
        for (job, above), between in zip(pairs, middle, strict=True)
        for procs in (job["procs"], between, above)
    ]
    found = answers(load_state(folder, len(asked)), asked) if asked else []
    return [_is_outside(found[place : place + 3]) for place in range(0, len(found), 3)]


def _is_outside(three: Sequence[Row]) -> tuple[bool, bool]:
    low_s, between_s, high_s = (one["runtime_s"] for one in three)
    smallest_s, largest_s = min(low_s, high_s) * (1 - ROUNDING), max(low_s, high_s) * (1 + ROUNDING)
    return not smallest_s <= between_s <= largest_s, any(one["hypothesis"] in LAW for one in three)


def main() -> None:
    """Print a line a folder."""
    print("| folder | " + " | ".join(Disagreements._fields) + " |")
    print("|" + " --- |" * (len(Disagreements._fields) + 1))
    for name in sys.argv[1:]:
        cells = [f"{one:,}" for one in disagreements(Path(name))]
        print(f"| {Path(name).name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
