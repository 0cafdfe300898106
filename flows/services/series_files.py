"""Reads measured runtimes from CSV: procs, runtime_s; optionally application, problem_size, series, energy_j, unit.

Runs over GPUs or nodes have a column gpus or nodes instead of procs, or say so in the column unit of each row.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from flows.services.files.table_files import csv_rows, write_any
from flows.services.quantities import chosen_names
from pipeline.arrays import Floats
from pipeline.axes import Axis
from pipeline.errors import InputError, nearest_name, printable
from pipeline.group.observations import aggregate
from pipeline.report import Report
from pipeline.scaling.fitted_series import compiling_for_many, predictions_at
from pipeline.settings import SiteSettings
from pipeline.tables import ACROSS, FITS, OBSERVATIONS, PATTERNS, PREDICTIONS, SCALABILITY

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
    counted = count_column(frame.columns)
    expected = f"a whole number of {Axis(counted).units}, 1 or more"
    procs = _numbers(path, frame, counted, expected)
    runtime_s = _numbers(path, frame, "runtime_s", _RUNTIME)
    whole = (procs >= 1) & (procs <= _MAX_PROCS) & (procs == np.floor(procs))
    _check(path, frame, counted, whole, expected)
    _check(path, frame, "runtime_s", (runtime_s >= LEAST_S) & (runtime_s <= MOST_S), _RUNTIME)
    names, codes = np.unique(_labels(path, frame), return_inverse=True)
    unknown = np.full(len(frame), np.nan)
    energy_j = _energy_j(path, frame)
    series = codes.astype(np.int64), procs.astype(np.int64)
    with compiling_for_many(len(frame)):
        columns = aggregate(*series, runtime_s, unknown, unknown, energy_j=energy_j)
    axes = _axes(path, frame, counted, codes)
    of_group = columns.pop("group_code")
    table = OBSERVATIONS.build(
        group_id=[str(names[code]) for code in of_group], axis=[axes[code] for code in of_group], **columns
    )
    words = _applications(path, frame)
    return table, {str(names[code]): str(word) for code, word in zip(codes, words, strict=True)}


def count_column(names: Sequence[str]) -> str:
    """The column that counts what runs are over: procs, else nodes or gpus; procs where there is none of them."""
    return next((axis.value for axis in Axis if axis.value in names), Axis.PROCS.value)


_UNITS = {"gpu": Axis.GPUS, "gpus": Axis.GPUS, "node": Axis.NODES, "nodes": Axis.NODES}
"""Words of the column unit; any other, as cores or ranks, is processors."""


def _axes(path: Path, frame: pd.DataFrame, counted: str, codes: np.ndarray) -> dict[int, Axis]:
    """The axis of each series; InputError where its rows count different things."""
    if "unit" not in frame.columns:
        return dict.fromkeys(codes.tolist(), Axis(counted))
    units = frame["unit"].str.strip().str.lower()
    found: dict[int, Axis] = {}
    for line, code, unit in zip(frame.index, codes.tolist(), units, strict=True):
        axis = _UNITS.get(unit, Axis(counted))
        if found.setdefault(code, axis) is not axis:
            where, expected = (
                f"{printable(str(path))}, line {line}",
                f"{found[code].units}, as in its series' first row",
            )
            raise InputError(where, f"a count of {axis.units}", expected, "give each unit a series of its own")
    return found


def _applications(path: Path, frame: pd.DataFrame) -> Any:
    """The application of each row: the file's name where none is given."""
    return frame["application"] if "application" in frame.columns else np.full(len(frame), path.stem, object)


def _energy_j(path: Path, frame: pd.DataFrame) -> np.ndarray:
    """Energy of each row, J; NaN where the cell is empty or the file has no such column."""
    if ENERGY not in frame.columns:
        return np.full(len(frame), np.nan)
    energy_j: Floats = pd.to_numeric(frame[ENERGY], errors="coerce").to_numpy(np.float64)
    is_good = (np.isfinite(energy_j) & (energy_j >= 0)) | (frame[ENERGY] == "").to_numpy()
    _check(path, frame, ENERGY, is_good, "joules, 0 or more")
    return energy_j


def _read(path: Path) -> pd.DataFrame:
    """The rows as text, indexed by line number; blank lines are left out."""
    where, expected = printable(str(path)), f"a CSV with the columns {', '.join(REQUIRED)}"
    read = csv_rows(path, expected)
    if not any(any(row) for _, row in read):
        raise InputError(where, "an empty file", expected)
    names = [name.lower() for name in read[0][1]]
    _check_columns(where, names)
    rows = [(line, row) for line, row in read[1:] if any(row)]
    for line, row in rows:
        if any(row[len(names) :]):
            raise InputError(f"{where}, line {line}", f"{len(row)} values", f"{len(names)}, as line 1 has columns")
    cells = [(row + [""] * len(names))[: len(names)] for _, row in rows]
    return pd.DataFrame(cells, index=[line for line, _ in rows], columns=names, dtype=str)


def _check_columns(where: str, names: list[str]) -> None:
    given = (count_column(names), "runtime_s", *OPTIONAL, ENERGY, "unit")
    repeated = [name for name in given if names.count(name) > 1]
    if repeated:
        raise InputError(f"{where}, line 1", f"{names.count(repeated[0])} columns {repeated[0]}", "one", "rename one")
    missing = [name for name in (count_column(names), "runtime_s") if name not in names]
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
        place = int(np.argmin(is_good))
        where, found = f"{printable(str(path))}, line {frame.index[place]}", printable(frame[name].iloc[place], 60)
        raise InputError(where, f"{name} = {found!r}", expected)


def _labels(path: Path, frame: pd.DataFrame) -> np.ndarray:
    """The id of each row's series: its optional columns as text, or the file's name where there are none."""
    given = [name for name in OPTIONAL if name in frame.columns]
    parts = [frame[name].map(lambda value, name=name: f"{name}={value}") for name in given]
    if not parts:
        return np.full(len(frame), path.stem, object)
    labels: np.ndarray = parts[0].str.cat(parts[1:], sep=" ").to_numpy(object)
    return labels


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
        table, named = read_series_and_applications(path)
        prefix = f"{place + 1} {path.stem}: " if len(paths) > 1 else ""
        ids = pa.array([prefix + group for group in table.column("group_id").to_pylist()])
        tables.append(table.set_column(0, field, ids.cast(field.type)))
        applications |= {prefix + group: word for group, word in named.items()}
    return pa.concat_tables(tables), applications


def with_fitted(
    series: Sequence[Mapping[str, Any]], tables: Mapping[str, pa.Table], max_procs: int | None, node: int | None
) -> list[dict[str, Any]]:
    """The series with `fitted`: predictions at the counts that ran, to stand beside the runs.

    `node`: processors of a node, if known.
    """
    counts = sorted({row["procs"] for one in series for row in one["observations"]})
    site = SiteSettings(max_procs=max_procs, procs_per_node=node)
    fitted: dict[str, list[dict[str, Any]]] = {}
    for row in predictions_at(tables, counts, site).to_pylist():
        fitted.setdefault(row["group_id"], []).append(row)
    ran = {one["series"]: {row["procs"] for row in one["observations"]} for one in series}
    return [
        {**one, "fitted": [row for row in fitted.get(one["series"], ()) if row["procs"] in ran[one["series"]]]}
        for one in series
    ]


def write_series(out: Path, tables: Mapping[str, pa.Table]) -> dict[str, Path]:
    """Write the fits to `out`, and the other tables beside it; returns the paths by table."""
    written = {FITS.name: write_any(out, tables[FITS.name], FITS)}
    for kind in (OBSERVATIONS, PATTERNS, SCALABILITY, PREDICTIONS, ACROSS):
        if kind.name in tables:
            beside = out.with_name(f"{out.stem}.{kind.name}{out.suffix}")
            written[kind.name] = write_any(beside, tables[kind.name], kind)
    return written
