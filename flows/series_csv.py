"""Runtimes a person measured, as CSV: columns procs, runtime_s, and optionally application, problem_size."""

import difflib
from pathlib import Path
from typing import NoReturn

import numpy as np
import pandas as pd
import pyarrow as pa

from pipeline.core.errors import InputError
from pipeline.core.tables import OBSERVATIONS
from pipeline.core.text import printable
from pipeline.group.observations import aggregate

REQUIRED = ("procs", "runtime_s")
OPTIONAL = ("application", "problem_size")
_MAX_PROCS = 2**40


def read_series(path: Path) -> pa.Table:
    """OBSERVATIONS, one group per application and problem size; several rows of one size are repeats.

    A group's id says in words what it is. InputError names file, line, what was found and what was expected.
    """
    frame = _read(path)
    procs = _numbers(path, frame, "procs", "a whole number of processors, 1 or more")
    runtime_s = _numbers(path, frame, "runtime_s", "a runtime in seconds above 0")
    whole = (procs >= 1) & (procs <= _MAX_PROCS) & (procs == np.floor(procs))
    _check(path, frame, "procs", whole, "a whole number of processors, 1 or more")
    _check(path, frame, "runtime_s", runtime_s > 0, "a runtime in seconds above 0")
    names, codes = np.unique(_labels(path, frame), return_inverse=True)
    unknown = np.full(len(frame), np.nan)
    columns = aggregate(codes.astype(np.int64), procs.astype(np.int64), runtime_s, unknown, unknown)
    return OBSERVATIONS.build(group_id=[str(names[code]) for code in columns.pop("group_code")], **columns)


def _read(path: Path) -> pd.DataFrame:
    where, expected = printable(str(path)), f"a CSV with the columns {', '.join(REQUIRED)}"
    try:
        frame = pd.read_csv(path, dtype=str, keep_default_na=False, skip_blank_lines=False, encoding="utf-8-sig")
    except FileNotFoundError:
        raise InputError(where, "no such file", expected, "give the path of one") from None
    except pd.errors.EmptyDataError:
        raise InputError(where, "an empty file", expected) from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(where, f"a file that cannot be read ({error})", f"{expected}, in UTF-8") from None
    except (pd.errors.ParserError, ValueError) as error:
        raise InputError(where, f"text that is no CSV ({' '.join(str(error).split())})", expected) from None
    frame = frame.rename(columns=lambda name: str(name).strip())
    _check_columns(where, [str(name) for name in frame.columns])
    if not isinstance(frame.index, pd.RangeIndex):
        raise InputError(f"{where}, line 2", "more values than columns", f"{len(frame.columns)} values, as in line 1")
    frame.index += 2
    return frame.loc[~(frame.fillna("") == "").all(axis=1)]


def _check_columns(where: str, names: list[str]) -> None:
    missing = [name for name in REQUIRED if name not in names]
    if missing:
        near = difflib.get_close_matches(missing[0], names, n=1)
        hint = f"rename {printable(near[0])} to {missing[0]}" if near else "write its name in the first line"
        found = f"the columns {', '.join(printable(name, 40) for name in names[:12])}"
        raise InputError(f"{where}, line 1", found, f"a column {' and '.join(missing)}", hint)


def _numbers(path: Path, frame: pd.DataFrame, name: str, expected: str) -> np.ndarray:
    if not len(frame):
        raise InputError(printable(str(path)), "no rows below the header", "at least one row of procs and runtime_s")
    values = pd.to_numeric(frame[name].fillna("").str.strip(), errors="coerce").to_numpy(np.float64)
    _check(path, frame, name, np.isfinite(values), expected)
    return values


def _check(path: Path, frame: pd.DataFrame, name: str, is_good: np.ndarray, expected: str) -> None:
    if not is_good.all():
        _refuse(
            path, int(frame.index[np.argmin(is_good)]), name, frame[name].fillna("").iloc[np.argmin(is_good)], expected
        )


def _refuse(path: Path, line: int, name: str, found: str, expected: str) -> NoReturn:
    raise InputError(f"{printable(str(path))}, line {line}", f"{name} = {printable(found, 60)!r}", expected)


def _labels(path: Path, frame: pd.DataFrame) -> np.ndarray:
    """The words that name each row's series; the file's name where it has none of the optional columns."""
    given = [name for name in OPTIONAL if name in frame.columns]
    parts = [frame[name].fillna("").str.strip().map(lambda value, name=name: f"{name}={value}") for name in given]
    if not parts:
        return np.full(len(frame), path.stem, object)
    return parts[0].str.cat(parts[1:], sep=" ").to_numpy(object)
