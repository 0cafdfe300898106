"""Reads measured runtimes as they come: a table of runs with a column that counts and one that tells how long.

Columns are named as tables of jobs name them (processors, cores, nodes, GPUs; runtime, elapsed, time), in any case and
with a unit, as in `time_min`. Separators, decimal commas and hh:mm:ss are read too. A run without a runtime failed, and
is left out with a note. Optional columns: application, problem_size, series, energy_j, unit.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from flows.services.files.table_files import write_any
from flows.services.quantities import STANDARD_INPUT, check_lengths, chosen_names, text_table
from pipeline.arrays import texts
from pipeline.axes import Axis
from pipeline.errors import InputError, printable
from pipeline.group.observations import aggregate
from pipeline.ingest.formats.table import UNKNOWN_CELLS
from pipeline.ingest.formats.table.guesses import guessed, units_of
from pipeline.ingest.raw_table import durations, numbers
from pipeline.kernels import compiling_for_many
from pipeline.report import Report
from pipeline.tables import ACROSS, FITS, OBSERVATIONS, PATTERNS, PREDICTIONS, SCALABILITY

COUNTS = tuple(str(axis) for axis in Axis)
OPTIONAL = ("application", "problem_size", "series")
OTHERS = (*OPTIONAL, "energy_j", "unit", "state")
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


class MeasuredRuns(NamedTuple):
    """OBSERVATIONS, the application of each group (the file's name where none is given), and what was assumed."""

    observations: pa.Table
    applications: dict[str, str]
    notes: list[str]


def read_runs(path: Path) -> MeasuredRuns:
    """The runs of a file, or of standard input where it is `-`; rows with equal counts are repeated runs.

    A group's id lists its application, problem size and series. InputError names file, line, what was found and what
    was expected.
    """
    # 1. Its rows as texts, and what each column holds.
    notes: list[str] = []
    where, names, lines, rows = _rows(path, notes)
    stem = "stdin" if path == STANDARD_INPUT else path.stem
    columns, factor = _columns(where, names, notes)
    counted = next(axis for axis in Axis if axis in columns)
    cells = {target: [row[place] for row in rows] for target, place in columns.items()}

    def check(target: str, is_good: Any, expected: str) -> None:
        if not all(is_good):
            place = int(np.argmin(is_good))
            found = f"{printable(names[columns[target]], 40)} = {printable(cells[target][place], 60)!r}"
            raise InputError(f"{where}, line {lines[place]}", found, expected)

    # 2. Their runtimes; runs that failed are left out.
    with compiling_for_many(len(rows)):
        runtime_s = durations(texts(_plain(cells["runtime_s"])), factor).floats()
    _check_thousands(where, cells["runtime_s"])
    has_failed = np.array([cell.lower() in FAILED for cell in cells["runtime_s"]]) | (runtime_s <= 0)
    has_failed |= np.array(
        [cell.lower().partition(" ")[0] in FAILED_STATES for cell in cells.get("state", [""] * len(rows))]
    )
    check("runtime_s", has_failed | ((runtime_s >= LEAST_S) & (runtime_s <= MOST_S)), _RUNTIME)
    check("runtime_s", ~has_failed | ~has_failed.all(), _RUNTIME)
    if has_failed.any():
        left = ", ".join(str(lines[place]) for place in np.flatnonzero(has_failed)[:10])
        notes.append(
            f"{has_failed.sum()} of {len(rows)} runs failed or have no runtime, and are left out: line {left}."
        )
    ran = np.flatnonzero(~has_failed).tolist()
    lines, runtime_s = [lines[place] for place in ran], runtime_s[ran]
    cells = {target: [column[place] for place in ran] for target, column in cells.items()}

    # 3. Their counts and energies.
    procs, blank = numbers(texts(_plain(cells[counted]))).floats(), np.full(len(ran), np.nan)
    is_count = (procs >= 1) & (procs <= _MAX_PROCS) & (procs == np.floor(procs))
    check(counted, is_count, f"a whole number of {counted.units}")
    energy_j = blank
    if "energy_j" in columns:
        energy_j = numbers(texts(_plain(cells["energy_j"]))).floats()
        is_empty = np.array([not cell for cell in cells["energy_j"]])
        check("energy_j", is_empty | (np.isfinite(energy_j) & (energy_j >= 0)), "joules, 0 or more")

    # 4. The series that they belong to, and what each counts.
    given = [name for name in OPTIONAL if name in columns]
    labels = [" ".join(f"{name}={cells[name][place]}" for name in given) or stem for place in range(len(ran))]
    ids, code = np.unique(labels, return_inverse=True)
    axes = _axes(where, lines, cells.get("unit", [""] * len(ran)), code, counted)
    with compiling_for_many(len(ran)):
        found = aggregate(code.astype(np.int64), procs.astype(np.int64), runtime_s, blank, blank, energy_j=energy_j)
    of_group = found.pop("group_code")
    table = OBSERVATIONS.build(
        group_id=[str(ids[one]) for one in of_group], axis=[axes[one] for one in of_group], **found
    )
    words = cells.get("application", [stem] * len(ran))
    return MeasuredRuns(table, {str(ids[one]): word for one, word in zip(code, words, strict=True)}, notes)


def _check_thousands(where: str, cells: Sequence[str]) -> None:
    """InputError where 3.571 beside 578 may be a number below four or one of thousands."""
    marked = [cell for cell in cells if "." in cell or "," in cell]
    whole = next((cell for cell in cells if cell.isdecimal()), None)
    if marked and whole and all(re.fullmatch(r"[1-9]\d{0,2}[.,]\d{3}", cell) for cell in marked):
        expected = "numbers without marks of thousands, and as many decimals in each"
        raise InputError(where, f"the runtimes {marked[0]} and {whole}", expected, "write 3571, or 3.571 and 578.000")


def _rows(path: Path, notes: list[str]) -> tuple[str, list[str], list[int], list[list[str]]]:
    """What errors call a file, its columns, and its rows with their lines; blank lines are left out."""
    if path.suffix.lower() in (".xlsx", ".xls", ".ods"):
        raise InputError(printable(str(path)), "a spreadsheet's workbook", "its sheet as text", "save the sheet as CSV")
    where, every = text_table(path, _EXPECTED, is_csv=False)
    rows = [(line, cells) for line, cells in every if any(cells)]
    if not rows:
        raise InputError(where, "an empty file", _EXPECTED)
    names = ["procs", "runtime_s"]
    if len(rows[0][1]) == len(names) and all(re.fullmatch(r"[\d.,:eE+-]*\d[\d.,:]*", cell) for cell in rows[0][1]):
        notes.append("The first line has no names: its columns are taken for procs and runtime_s.")
    else:
        names = rows.pop(0)[1]
    if not rows:
        raise InputError(where, "no rows below the header", "at least one row of a count and a runtime")
    # A row may end early, as that of a failed run, or with separators.
    whole = [(line, [*cells, *[""] * (len(names) - len(cells))]) for line, cells in rows]
    whole = [(line, cells if any(cells[len(names) :]) else cells[: len(names)]) for line, cells in whole]
    check_lengths(where, names, whole)
    return where, names, [line for line, _ in whole], [cells for _, cells in whole]


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
    if "threads" in words and "procs" not in [name.lower() for name in names]:
        do = "add a column procs with the processors of each run: its ranks times its threads"
        raise InputError(line, f"the columns {listed}", "one column that counts what runs are over", do)
    if "runtime_s" not in found or not found.keys() & set(COUNTS):
        missing = "a column runtime_s" if found.keys() & set(COUNTS) else "a column procs and runtime_s"
        raise InputError(line, f"the columns {listed}", missing, _DO)
    unit = mapped["runtime_s"].unit or "s"
    read = {name: names[place] for name, place in found.items() if names[place].strip().lower() != name}
    if read:
        said = ", ".join(
            f"{printable(name, 40)} for {target}{f' in {unit}' if target == 'runtime_s' and unit != 's' else ''}"
            for target, name in read.items()
        )
        notes.append(f"Columns are taken by their names: {said}.")
    if unread := [printable(name, 40) for place, name in enumerate(names) if place not in found.values()]:
        notes.append(f"Columns that are not read: {', '.join(unread[:12])}.")
    return found, units_of("runtime_s")[unit]


def _plain(cells: Sequence[str]) -> list[str | None]:
    """Texts of numbers with a decimal point and no thousands; None where a run has no value."""
    commas = [cell for cell in cells if "," in cell]
    is_decimal = bool(commas) and all(re.fullmatch(r"[\d.]*,\d+", cell) for cell in commas)
    plain = [cell.replace(".", "").replace(",", ".") if is_decimal else cell.replace(",", "") for cell in cells]
    return [None if cell.lower() in FAILED else cell for cell in plain]


_UNITS = {"gpu": Axis.GPUS, "gpus": Axis.GPUS, "node": Axis.NODES, "nodes": Axis.NODES}
"""Words of the column unit; any other, as cores or ranks, is processors."""


def _axes(where: str, lines: Sequence[int], units: Sequence[str], codes: Any, counted: Axis) -> dict[int, Axis]:
    """The axis of each series; InputError where its rows count different things."""
    found: dict[int, Axis] = {}
    for line, code, unit in zip(lines, codes.tolist(), units, strict=True):
        axis = _UNITS.get(unit.lower(), counted)
        if found.setdefault(code, axis) is not axis:
            expected = f"{found[code].units}, as in its series' first row"
            do = "give each unit a series of its own"
            raise InputError(f"{where}, line {line}", f"a count of {axis.units}", expected, do)
    return found


def evaluate_files(paths: Sequence[Path], names: Sequence[str]) -> tuple[pa.Table, Report]:
    """SCALING_ERRORS of these predictors (none: all but ADEPT) over the series of all files, and the report on them."""
    # It loads numba, which a fit of a few rows does without.
    from pipeline.evaluate.scaling_errors import ON_REQUEST, PREDICTORS, evaluate_scaling  # noqa: PLC0415

    names = names or [name for name in PREDICTORS if name != ON_REQUEST]
    predictors = {name: PREDICTORS[name] for name in chosen_names(names, PREDICTORS, "--predictor")}
    observations, applications = read_all(paths)
    table, report = evaluate_scaling(observations, applications, predictors)
    if not any(table.column("n_targets").to_pylist()):
        found = f"{len(applications)} series, none of them with a size to predict"
        expected = "a series of at least four sizes, as three are given and the others predicted"
        raise InputError(", ".join(printable(str(path)) for path in paths), found, expected)
    return table, report


def read_all(paths: Sequence[Path]) -> tuple[pa.Table, dict[str, str]]:
    """OBSERVATIONS of every file, and each group's application; ids of groups of several files name the file."""
    tables: list[pa.Table] = []
    applications: dict[str, str] = {}
    field = OBSERVATIONS.schema().field("group_id")
    for place, path in enumerate(paths):
        table, named, _ = read_runs(path)
        prefix = f"{place + 1} {path.stem}: " if len(paths) > 1 else ""
        ids = pa.array([prefix + group for group in table.column("group_id").to_pylist()])
        tables.append(table.set_column(0, field, ids.cast(field.type)))
        applications |= {prefix + group: word for group, word in named.items()}
    return pa.concat_tables(tables), applications


def write_series(out: Path, tables: Mapping[str, pa.Table]) -> dict[str, Path]:
    """Write the fits to `out`, and the other tables beside it; returns the paths by table."""
    written = {FITS.name: write_any(out, tables[FITS.name], FITS)}
    for kind in (OBSERVATIONS, PATTERNS, SCALABILITY, PREDICTIONS, ACROSS):
        if kind.name in tables:
            beside = out.with_name(f"{out.stem}.{kind.name}{out.suffix}")
            written[kind.name] = write_any(beside, tables[kind.name], kind)
    return written
