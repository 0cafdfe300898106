"""Reads measured runtimes from CSV: procs, runtime_s; optionally application, problem_size, series, energy_j."""

import csv
import io
from pathlib import Path
from typing import NoReturn

import numpy as np
import pandas as pd
import pyarrow as pa

from flows.services.files.os_errors import read_text
from pipeline.core.arrays import Floats
from pipeline.core.errors import InputError
from pipeline.core.tables import GROUPS, OBSERVATIONS
from pipeline.core.text import nearest_name, printable
from pipeline.group.observations import aggregate

REQUIRED = ("procs", "runtime_s")
OPTIONAL = ("application", "problem_size", "series")
ENERGY = "energy_j"
_MAX_PROCS = 2**40
LEAST_S, MOST_S = 1e-9, 1e12
"""Bounds of plausible runtimes; values beyond them are typing errors or codes for "none"."""
_RUNTIME = f"a runtime in seconds, from {LEAST_S:g} to {MOST_S:g}"
_SEPARATORS = {";": ";", "\t": "tabs", "|": "|", " ": "blanks"}


def read_series(path: Path) -> pa.Table:
    """OBSERVATIONS with one group per application, problem size and series; rows with equal procs are repeated runs.

    A group's id lists these values. InputError names file, line, what was found and what was expected.
    """
    return read_series_and_applications(path)[0]


def read_series_and_applications(path: Path) -> tuple[pa.Table, dict[str, str]]:
    """OBSERVATIONS as `read_series`, and the application of each group (the file's name where none is given)."""
    frame = _read(path)
    procs = _numbers(path, frame, "procs", "a whole number of processors, 1 or more")
    runtime_s = _numbers(path, frame, "runtime_s", _RUNTIME)
    whole = (procs >= 1) & (procs <= _MAX_PROCS) & (procs == np.floor(procs))
    _check(path, frame, "procs", whole, "a whole number of processors, 1 or more")
    _check(path, frame, "runtime_s", (runtime_s >= LEAST_S) & (runtime_s <= MOST_S), _RUNTIME)
    names, codes = np.unique(_labels(path, frame), return_inverse=True)
    unknown = np.full(len(frame), np.nan)
    energy_j = _energy_j(path, frame)
    columns = aggregate(codes.astype(np.int64), procs.astype(np.int64), runtime_s, unknown, unknown, energy_j=energy_j)
    table = OBSERVATIONS.build(group_id=[str(names[code]) for code in columns.pop("group_code")], **columns)
    words = frame["application"] if "application" in frame.columns else np.full(len(frame), path.stem, object)
    return table, {str(names[code]): str(word) for code, word in zip(codes, words, strict=True)}


def read_series_and_groups(path: Path) -> tuple[pa.Table, pa.Table | None]:
    """OBSERVATIONS, and GROUPS of the same series; None instead of GROUPS where the file has no problem sizes.

    An application in GROUPS is the file's application (or the file's name) with its series.
    """
    frame, table = _read(path), read_series(path)
    if "problem_size" not in frame.columns:
        return table, None
    words = frame["application"] if "application" in frame.columns else np.full(len(frame), path.stem, object)
    if "series" in frame.columns:
        words = words + " series=" + frame["series"]
    named = dict(zip(_labels(path, frame), zip(words, frame["problem_size"], strict=True), strict=True))
    ids = table.column("group_id").unique().to_pylist()
    counts = pd.Series(table.column("group_id").to_pylist())
    jobs = pd.Series(table.column("n_jobs").to_pylist()).groupby(counts).sum()
    groups = GROUPS.build(
        group_id=ids,
        site=["csv"] * len(ids),
        template=["application+problem_size"] * len(ids),
        label=ids,
        application=[str(named[group][0]) for group in ids],
        problem_size=[str(named[group][1]) for group in ids],
        n_jobs=[int(jobs[group]) for group in ids],
        n_sizes=[int((counts == group).sum()) for group in ids],
    )
    return table, groups


def _energy_j(path: Path, frame: pd.DataFrame) -> np.ndarray:
    """Energy of each row, J; NaN where the cell is empty or the file has no such column."""
    if ENERGY not in frame.columns:
        return np.full(len(frame), np.nan)
    energy_j: Floats = pd.to_numeric(frame[ENERGY], errors="coerce").to_numpy(np.float64)
    is_good = (np.isfinite(energy_j) & (energy_j >= 0)) | (frame[ENERGY] == "").to_numpy()
    _check(path, frame, ENERGY, is_good, "joules, 0 or more")
    return energy_j


def applications(observations: pa.Table) -> dict[str, str]:
    """Application by group id, for the ids of `read_series` that name one."""
    groups = observations.column("group_id").unique().to_pylist()
    named = [(group, group.partition(" problem_size=")[0]) for group in groups]
    return {group: application for group, application in named if application.startswith("application=")}


def _read(path: Path) -> pd.DataFrame:
    """The rows as text, indexed by line number; blank lines are left out."""
    where, expected = printable(str(path)), f"a CSV with the columns {', '.join(REQUIRED)}"
    text = read_text(path, f"{expected}, in UTF-8")
    if not text.strip():
        raise InputError(where, "an empty file", expected)
    reader = csv.reader(io.StringIO(text))
    try:
        rows = [(reader.line_num, [value.strip() for value in row]) for row in reader]
    except csv.Error as error:
        raise InputError(f"{where}, line {reader.line_num}", f"text that is no CSV ({error})", expected) from None
    names = [name.lower() for name in rows[0][1]]
    _check_columns(where, names)
    return _frame(where, names, [(line, row) for line, row in rows[1:] if any(row)])


def _frame(where: str, names: list[str], rows: list[tuple[int, list[str]]]) -> pd.DataFrame:
    for line, row in rows:
        if any(row[len(names) :]):
            raise InputError(f"{where}, line {line}", f"{len(row)} values", f"{len(names)}, as line 1 has columns")
    cells = [(row + [""] * len(names))[: len(names)] for _, row in rows]
    return pd.DataFrame(cells, index=[line for line, _ in rows], columns=names, dtype=str)


def _check_columns(where: str, names: list[str]) -> None:
    repeated = [name for name in (*REQUIRED, *OPTIONAL, ENERGY) if names.count(name) > 1]
    if repeated:
        raise InputError(f"{where}, line 1", f"{names.count(repeated[0])} columns {repeated[0]}", "one", "rename one")
    missing = [name for name in REQUIRED if name not in names]
    if missing:
        _check_separator(where, names)
        near = nearest_name(missing[0], names)
        hint = f"rename {printable(near)} to {missing[0]}" if near is not None else "name it in the first line"
        found = f"the columns {', '.join(printable(name, 40) for name in names[:12])}"
        raise InputError(f"{where}, line 1", found, f"a column {' and '.join(missing)}", hint)


def _check_separator(where: str, names: list[str]) -> None:
    for separator, shown in _SEPARATORS.items():
        if set(REQUIRED) <= {name.strip(' "') for name in ",".join(names).split(separator)}:
            raise InputError(f"{where}, line 1", f"columns separated by {shown}", "commas", "replace them")


def _numbers(path: Path, frame: pd.DataFrame, name: str, expected: str) -> np.ndarray:
    if not len(frame):
        raise InputError(printable(str(path)), "no rows below the header", "at least one row of procs and runtime_s")
    values: Floats = pd.to_numeric(frame[name], errors="coerce").to_numpy(np.float64)
    _check(path, frame, name, np.isfinite(values), expected)
    return values


def _check(path: Path, frame: pd.DataFrame, name: str, is_good: np.ndarray, expected: str) -> None:
    if not is_good.all():
        _refuse(path, int(frame.index[np.argmin(is_good)]), name, frame[name].iloc[np.argmin(is_good)], expected)


def _refuse(path: Path, line: int, name: str, found: str, expected: str) -> NoReturn:
    raise InputError(f"{printable(str(path))}, line {line}", f"{name} = {printable(found, 60)!r}", expected)


def _labels(path: Path, frame: pd.DataFrame) -> np.ndarray:
    """The id of each row's series: its optional columns as text, or the file's name where there are none."""
    given = [name for name in OPTIONAL if name in frame.columns]
    parts = [frame[name].map(lambda value, name=name: f"{name}={value}") for name in given]
    if not parts:
        return np.full(len(frame), path.stem, object)
    labels: np.ndarray = parts[0].str.cat(parts[1:], sep=" ").to_numpy(object)
    return labels
