"""Reads measured runtimes as they come: a table of runs with a column that counts and one that tells how long.

Columns are named as tables of jobs name them (processors, cores, nodes, GPUs; runtime, elapsed, time), in any case and
with a unit, as in `time_min`. Separators, decimal commas and hh:mm:ss are read too. A run without a runtime failed, and
is left out with a note. Optional columns: application, problem_size, series, energy_j, state.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from flows.services.files.table_files import write_any
from flows.services.quantities import STANDARD_INPUT, check_lengths, chosen_names, text_table
from pipeline.arrays import texts
from pipeline.errors import InputError, printable
from pipeline.group.observations import aggregate
from pipeline.ingest.formats.table import UNKNOWN_CELLS
from pipeline.ingest.formats.table.guesses import guessed, units_of
from pipeline.ingest.raw_table import durations, numbers
from pipeline.kernels import compiling_for_many
from pipeline.report import Report
from pipeline.schema import Axis
from pipeline.tables import ACROSS, FITS, OBSERVATIONS, PATTERNS, PREDICTIONS, SCALABILITY

COUNTS = tuple(str(axis) for axis in Axis)
OPTIONAL = ("application", "problem_size", "series")
OTHERS = (*OPTIONAL, "energy_j", "state")
TIMINGS = {
    "time": "runtime", "wall": "runtime", "seconds": "runtime_s", "t": "runtime", "laufzeit": "runtime",
    "zeit": "runtime", "ranks": "procs", "np": "procs", "p": "procs", "kerne": "procs",
    "prozessoren": "procs", "knoten": "nodes", "hours": "runtime_h", "minutes": "runtime_min", "status": "state",
}  # fmt: skip
"""Names in timings that a log has for something else, or not at all."""

_FAILURES = {"failed", "fail", "error", "crashed", "killed", "timeout", "oom"}
FAILED = {"-", *_FAILURES, *map(str.lower, UNKNOWN_CELLS)}
"""Runtimes of a run that has none; so are 0 and what is below it."""

FAILED_STATES = _FAILURES | {"boot_fail", "cancelled", "deadline", "node_fail", "out_of_memory", "preempted"}
"""States of a run that did not reach its end."""

_MAX_PROCS = 2**40
LEAST_S, MOST_S = 1e-9, 1e12
"""Bounds of plausible runtimes; values beyond them are typing errors or codes for "none"."""
_RUNTIME = f"a runtime in seconds, from {LEAST_S:g} to {MOST_S:g}, or hh:mm:ss"
_EXPECTED = "a table with a column of counts, such as procs, and one of runtimes, such as runtime_s"
_DO = 'name them in the first line, as in "procs,runtime_s"'


def read_runs(path: Path) -> tuple[pa.Table, dict[str, str], list[str]]:
    """The runs of a file, or of standard input where it is `-`; rows with equal counts are repeated runs.

    Returns OBSERVATIONS, the application of each group (the file's name where none is given), and what was assumed. A
    group's id lists its application, problem size and series. InputError names file, line, what was found and what was
    expected.
    """
    # 1. Its rows as texts, and what each column holds.
    notes: list[str] = []
    where, names, rows = _rows(path, notes)
    columns, factor = _columns(where, names, notes)
    counted = next(axis for axis in Axis if axis in columns)
    lines = np.array([line for line, _ in rows])
    cells = {target: np.array([row[at] for _, row in rows], object) for target, at in columns.items()}

    def check(target: str, is_good: Any, expected: str) -> None:
        if not all(is_good):
            bad = int(np.argmin(is_good))
            found = f"{printable(names[columns[target]], 40)} = {printable(cells[target][bad], 60)!r}"
            raise InputError(f"{where}, line {lines[bad]}", found, expected)

    # 2. Their runtimes; runs that failed are left out.
    with compiling_for_many(len(rows)):
        runtime_s = durations(texts(_plain(cells["runtime_s"])), factor).floats()
    _check_thousands(where, cells["runtime_s"])
    states = cells.get("state", np.full(len(rows), "", object))
    has_failed = (runtime_s <= 0) | [
        took.lower() in FAILED or state.lower().partition(" ")[0] in FAILED_STATES
        for took, state in zip(cells["runtime_s"], states, strict=True)
    ]
    is_runtime = (runtime_s >= LEAST_S) & (runtime_s <= MOST_S)
    check("runtime_s", is_runtime | (has_failed & ~has_failed.all()), _RUNTIME)
    if has_failed.any():
        left = ", ".join(str(line) for line in lines[has_failed][:10])
        notes.append(
            f"{has_failed.sum()} of {len(rows)} runs failed or have no runtime, and are left out: line {left}."
        )
    lines, runtime_s = lines[~has_failed], runtime_s[~has_failed]
    cells = {target: column[~has_failed] for target, column in cells.items()}

    # 3. Their counts and energies.
    procs = numbers(texts(_plain(cells[counted]))).floats()
    is_count = (procs >= 1) & (procs <= _MAX_PROCS) & (procs == np.floor(procs))
    check(counted, is_count, f"a whole number of {counted.units}")
    blank = np.full(len(lines), np.nan)
    energy_j = numbers(texts(_plain(cells["energy_j"]))).floats() if "energy_j" in columns else blank
    if "energy_j" in columns:
        is_energy = (cells["energy_j"] == "") | (np.isfinite(energy_j) & (energy_j >= 0))
        check("energy_j", is_energy, "joules, 0 or more")

    # 4. The series that they belong to.
    stem = "stdin" if path == STANDARD_INPUT else path.stem
    given = [name for name in OPTIONAL if name in columns]
    labels = [
        " ".join(f"{name}={cells[name][row]}" for name in given) or stem for row in range(len(lines))
    ]  # fmt: skip
    ids, code = np.unique(labels, return_inverse=True)
    with compiling_for_many(len(lines)):
        found = aggregate(code.astype(np.int64), procs.astype(np.int64), runtime_s, blank, blank, energy_j=energy_j)
    group_id = ids[found.pop("group_code")].tolist()
    table = OBSERVATIONS.build(group_id=group_id, axis=[counted] * len(group_id), **found)
    return table, dict(zip(labels, cells.get("application", [stem] * len(lines)), strict=True)), notes


def _check_thousands(where: str, cells: Iterable[str]) -> None:
    """InputError where 3.571 beside 578 may be a number below four or one of thousands."""
    marked = [cell for cell in cells if "." in cell or "," in cell]
    whole = next((cell for cell in cells if cell.isdecimal()), None)
    if marked and whole and all(re.fullmatch(r"[1-9]\d{0,2}[.,]\d{3}", cell) for cell in marked):
        expected = "numbers without marks of thousands, and as many decimals in each"
        raise InputError(where, f"the runtimes {marked[0]} and {whole}", expected, "write 3571, or 3.571 and 578.000")


def _rows(path: Path, notes: list[str]) -> tuple[str, list[str], list[tuple[int, list[str]]]]:
    """What errors call a file, its columns, and its rows with their lines; blank lines are left out."""
    if path.suffix.lower() in (".xlsx", ".xls", ".ods"):
        raise InputError(printable(str(path)), "a spreadsheet's workbook", "its sheet as text", "save the sheet as CSV")
    where, rows = text_table(path, _EXPECTED, is_csv=False)
    names = ["procs", "runtime_s"]
    if len(rows[0][1]) == len(names) and all(re.fullmatch(r"[\d.,:eE+-]*\d[\d.,:]*", cell) for cell in rows[0][1]):
        # Runs are listed in rising order of their counts.
        counts, others = ([cells[at] for _, cells in rows if len(cells) > at] for at in (0, 1))
        if _rises(others) and not _rises(counts):
            names.reverse()
        notes.append(f"The first line has no names: its columns are taken for {' and '.join(names)}.")
    else:
        names = rows.pop(0)[1]
    if not rows:
        raise InputError(where, "no rows below the header", "at least one row of a count and a runtime")
    # A row may end early, as that of a failed run, or with separators.
    n = len(names)
    rows = [
        (line, cells + [""] * (n - len(cells)) if any(cells[n:]) else (cells + [""] * n)[:n]) for line, cells in rows
    ]
    check_lengths(where, names, rows)
    return where, names, rows


def _rises(cells: Sequence[str]) -> bool:
    """Whether all cells are whole numbers, and none is below the one before."""
    return all(map(str.isdecimal, cells)) and all(int(one) <= int(other) for one, other in pairwise(cells))


def _columns(where: str, names: Sequence[str], notes: list[str]) -> tuple[dict[str, int], float]:
    """The place of each column by what it holds, and the unit of the runtimes in seconds."""
    line, listed = f"{where}, line 1", ", ".join(printable(name, 40) for name in names[:12])
    words, plain = [], {name.strip().lower() for name in names}
    for name in names:
        head, _, rest = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_").partition("_")
        target = TIMINGS.get(head, head)
        # A column that has the very name goes before one that means the same.
        target = head if target != head and target in plain else target
        words.append("_".join(filter(None, (target, re.sub(r"^time(_|$)", "", rest)))))
    mapped = guessed(words)
    found = {name: words.index(name) for name in OTHERS if name in words}
    found |= {name: words.index(mapped[name].name) for name in (*COUNTS, "runtime_s") if name in mapped}
    if double := next((names[place] for place in found.values() if words.count(words[place]) > 1), None):
        raise InputError(line, f"2 columns {printable(double.lower(), 40)}", "one", "rename one")
    if "threads" in words and "procs" not in plain:
        do = "add a column procs with the processors of each run: its ranks times its threads"
        raise InputError(line, f"the columns {listed}", "one column that counts what runs are over", do)
    if "runtime_s" not in found or not found.keys() & set(COUNTS):
        missing = "a column runtime_s" if found.keys() & set(COUNTS) else "a column procs and runtime_s"
        raise InputError(line, f"the columns {listed}", missing, _DO)
    unit = mapped["runtime_s"].unit or "s"
    units = {"runtime_s": f" in {unit}"} if unit != "s" else {}
    read = [
        f"{printable(names[place], 40)} for {target}{units.get(target, '')}"
        for target, place in found.items()
        if names[place].strip().lower() != target
    ]
    if read:
        notes.append(f"Columns are taken by their names: {', '.join(read)}.")
    if unread := [printable(name, 40) for place, name in enumerate(names) if place not in found.values()]:
        notes.append(f"Columns that are not read: {', '.join(unread[:12])}.")
    return found, units_of("runtime_s")[unit]


def _plain(cells: Iterable[str]) -> list[str | None]:
    """Texts of numbers with a decimal point and no thousands; None where a run has no value."""
    commas = [cell for cell in cells if "," in cell]
    is_decimal = bool(commas) and all(re.fullmatch(r"[\d.]*,\d+", cell) for cell in commas)
    plain = [cell.replace(".", "").replace(",", ".") if is_decimal else cell.replace(",", "") for cell in cells]
    return [None if cell.lower() in FAILED else cell for cell in plain]


def evaluate_files(paths: Sequence[Path], names: Sequence[str]) -> tuple[pa.Table, Report]:
    """SCALING_ERRORS of these predictors (none: all but ADEPT) over the series of all files, and the report on them.

    Ids of groups of several files name the file.
    """
    # It loads numba, which a fit of a few rows does without.
    from pipeline.evaluate.scaling_errors import ON_REQUEST, PREDICTORS, evaluate_scaling  # noqa: PLC0415

    names = names or [name for name in PREDICTORS if name != ON_REQUEST]
    predictors = {name: PREDICTORS[name] for name in chosen_names(names, PREDICTORS, "--predictor")}
    tables: list[pa.Table] = []
    applications: dict[str, str] = {}
    field = OBSERVATIONS.schema().field("group_id")
    for nth, path in enumerate(paths, 1):
        table, named, _ = read_runs(path)
        prefix = f"{nth} {path.stem}: " if len(paths) > 1 else ""
        ids = pa.array([prefix + group for group in table.column("group_id").to_pylist()])
        tables.append(table.set_column(0, field, ids.cast(field.type)))
        applications |= {prefix + group: word for group, word in named.items()}
    table, report = evaluate_scaling(pa.concat_tables(tables), applications, predictors)
    if not any(table.column("n_targets").to_pylist()):
        found = f"{len(applications)} series, none of them with a size to predict"
        expected = "a series of at least four sizes, as three are given and the others predicted"
        raise InputError(", ".join(printable(str(path)) for path in paths), found, expected)
    return table, report


def write_series(out: Path, tables: Mapping[str, pa.Table]) -> dict[str, Path]:
    """Write the fits to `out`, and the other tables beside it; returns the paths by table."""
    written = {FITS.name: write_any(out, tables[FITS.name], FITS)}
    for kind in (OBSERVATIONS, PATTERNS, SCALABILITY, PREDICTIONS, ACROSS):
        if kind.name in tables:
            beside = out.with_name(f"{out.stem}.{kind.name}{out.suffix}")
            written[kind.name] = write_any(beside, tables[kind.name], kind)
    return written
