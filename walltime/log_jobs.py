"""Reads accounting logs into frames of jobs, sets doubtful jobs aside, and takes in a user's frame as the table JOBS.

Columns are converted to the declared types, and missing ones are null.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.arrays import CATEGORY
from pipeline.clean import SET
from pipeline.clean import clean as clean_jobs
from pipeline.config_file import load_settings, parse_settings
from pipeline.errors import InputError, printable
from pipeline.ingest import Source, ingest
from pipeline.schema import INSTANT_UNIT, Column, TableKind, as_array
from pipeline.settings import RunSettings
from pipeline.tables import JOBS
from walltime.frames import FrameKind, arrow_of, frame_kind, frame_of, plain, require, same_rows, source_of, with_column

Site = str | Mapping[str, Any] | None

TIMES = ("submit_s", "start_s", "end_s")
"""What a log states about each job, beside processors and runtime."""

NEEDED_OF_LOG = (*TIMES, "procs", "runtime_s")
"""The columns without which jobs are no log."""

_KEY = ("submit_s", "job_id", "restart")


class UnreadableLinesWarning(UserWarning):
    """Lines of a log could not be read, and their jobs are not in the frame."""


def read(
    path: Any,
    site: Site = None,
    *,
    config: str | Path | None = None,
    frame: str = "pandas",
) -> Any:
    """The jobs of accounting logs, one row per record of one allocation, in order of submit.

    Formats are found by content: `sacct` dumps and JSON, accounting files of OpenPBS and TORQUE, the Standard Workload
    Format, tables that `walltime ingest` wrote, and any other table of jobs; each may be compressed. Which column of
    such a table holds what is guessed, or declared in the config's `[ingest.columns]`. `walltime show --columns jobs`
    explains the columns of the result.

    Parameters
    ----------
    path : str, Path, list of these, or a frame
        Logs, folders or globs of one site; or a frame of pandas or polars, a table or dataset of Arrow, or a relation
        of DuckDB, with a row for each job.
    site : str or mapping, optional
        The site's name, or values of the section `[site]` of a config, such as `timezone` and `max_procs`.
    config : str or Path, optional
        TOML file with all settings; without it the defaults hold.
    frame : str
        Kind of the frame: "pandas", "polars" or "arrow".

    Returns
    -------
    DataFrame
        JOBS; times in s since 1970 (UTC), durations in s, unknown values null.

    Warns
    -----
    UnreadableLinesWarning
        If lines could not be read; `walltime ingest` writes each with its reason.

    Raises
    ------
    WalltimeError
        If a log is missing, empty, damaged or of no known format, or if a setting is wrong.

    Examples
    --------
    >>> import walltime as wt
    >>> jobs = wt.read("data_samples/traps.swf", site="oxbow")
    >>> len(jobs), jobs["runtime_s"].dtype
    (94, dtype('float64'))
    """
    kind = frame_kind(frame)
    settings = settings_for(config, site)
    sources: list[Path | Source]
    if isinstance(path, str | Path | list | tuple):
        sources = [Path(one) for one in (path if isinstance(path, list | tuple) else [path])]
    else:
        sources = [source_of(path, "frame")]
    jobs, unreadable, _ = ingest(sources, settings.site, settings.ingest)
    if unreadable.num_rows:
        reasons = ", ".join(sorted({printable(reason) for reason in unreadable.column("reason").to_pylist()}))
        found = f"{unreadable.num_rows} lines could not be read ({reasons}) and are missing here"
        warnings.warn(f"{found}; `walltime ingest` writes each with its reason.", UnreadableLinesWarning, stacklevel=2)
    return frame_of(plain(jobs, JOBS), kind)


def clean(jobs: Any, site: Site = None, *, config: str | Path | None = None) -> Any:
    """The same rows with the reason for which each job is set aside; no row is removed.

    Parameters
    ----------
    jobs : DataFrame
        Jobs as `read` gives them. Needed: `submit_s`, `start_s`, `end_s` (s since 1970), `procs` and `runtime_s` (s).
        Other columns of JOBS are used where they exist, and further columns are kept.
    site : str or mapping, optional
        The site's name, or values of the section `[site]` of a config, such as `max_procs`.
    config : str or Path, optional
        TOML file with all settings; without it the defaults hold.

    Returns
    -------
    DataFrame
        The frame with `flag` (null: the job is kept), `burst_id` and `is_lower_bound`.

    Raises
    ------
    WalltimeError
        If a needed column is missing, or values do not fit their column.

    Examples
    --------
    >>> import walltime as wt
    >>> jobs = wt.clean(wt.read("data_samples/traps.swf", site="oxbow"))
    >>> len(jobs), int(jobs["flag"].notna().sum()), int((jobs["flag"] == "no_procs").sum())
    (94, 25, 2)
    """
    settings = settings_for(config, site)
    given = log_of(jobs, "clean", settings)
    flagged = clean_jobs(given.jobs, settings.clean, settings.site)[0]
    return same_rows(given.with_columns(flagged, SET), given.kind, jobs)


@dataclass(frozen=True, slots=True)
class Given:
    """A user's frame, and the same jobs as JOBS in order of submit."""

    jobs: pa.Table
    table: pa.Table
    kind: FrameKind
    order: pa.Array
    """Per row of `jobs` its row in the user's frame."""

    def with_columns(self, jobs: pa.Table, names: Sequence[str]) -> pa.Table:
        """The user's table with these columns of `jobs`, in the user's order of rows."""
        back = np.empty(len(self.order), np.int64)
        back[self.order.to_numpy()] = np.arange(len(self.order))
        table = self.table
        for name in names:
            field = JOBS.schema(on_disk=True).field(name)
            table = with_column(table, field, jobs.column(name).cast(field.type).take(pa.array(back)))
        return table


def settings_for(config: str | Path | None, site: Site) -> RunSettings:
    """The settings of a config file, or the defaults; `site` is the site's name, or values of the section [site]."""
    settings = load_settings(Path(config)) if config is not None else RunSettings()
    given = {"name": site} if isinstance(site, str) else dict(site or {})
    named = settings.model_dump()
    return parse_settings(named | {"site": named["site"] | given}, "site")


def jobs_of(frame: Any, needed: Sequence[str], what: str, site: str = "site") -> Given:
    """A frame's jobs; InputError for a missing column, or values that do not fit a column's type."""
    table, kind = arrow_of(frame, what)
    require(table, needed, what)
    named = dict.fromkeys(column.name for column in JOBS.columns if column.name in table.column_names)
    columns = converted(table, JOBS, list(named), what) | _required(table, site)
    _require_one_row_per_job(columns, what)
    order = _order(columns)
    jobs = JOBS.build(**{name: values.take(order) for name, values in columns.items()})
    return Given(jobs, table, kind, order)


def log_of(frame: Any, what: str, settings: RunSettings) -> Given:
    """The jobs of a log, as `jobs_of` gives them; InputError where a column of NEEDED_OF_LOG is missing."""
    return jobs_of(frame, NEEDED_OF_LOG, what, settings.site.name)


def flagged(given: Given, settings: RunSettings) -> pa.Table:
    """The jobs with flags: those of the frame where it has any, else what cleaning sets."""
    if given.jobs.column("flag").null_count < given.jobs.num_rows:
        return given.jobs
    return clean_jobs(given.jobs, settings.clean, settings.site)[0]


def converted(table: pa.Table, declared: TableKind, names: Sequence[str], what: str) -> dict[str, pa.Array]:
    """These columns of a table in the types of a declaration."""
    by_name = {column.name: column for column in declared.columns}
    return {name: _converted(table.column(name), by_name[name], what) for name in names}


def _converted(values: pa.ChunkedArray, column: Column, what: str) -> pa.Array:
    if values.null_count == len(values):
        return pa.nulls(len(values), column.type)
    try:
        return _as_type(_in_seconds(values, column), column.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
        unit = f" ({column.unit})" if column.unit else ""
        found = f"column {column.name} with values of type {printable(str(values.type))}"
        is_zoneless = pa.types.is_timestamp(values.type) and column.unit == INSTANT_UNIT
        do = "name their zone, in pandas by .dt.tz_localize" if is_zoneless else "convert the column"
        raise InputError(what, found, f"{column.type}{unit}", do) from None


def _in_seconds(values: pa.ChunkedArray, column: Column) -> pa.ChunkedArray:
    """Times with a zone as whole seconds since 1970 (a part of a second is dropped), durations as seconds."""
    if pa.types.is_timestamp(values.type) and values.type.tz and column.unit == INSTANT_UNIT:
        return pc.floor_temporal(values, unit="second").cast(pa.timestamp("s", values.type.tz)).cast(pa.int64())
    if pa.types.is_duration(values.type) and column.unit == "s":
        parts = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}[values.type.unit]
        return pc.divide(values.cast(pa.int64()).cast(pa.float64()), parts)
    return values


def _as_type(values: pa.Array, wanted: pa.DataType) -> pa.Array:
    values = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if wanted not in (CATEGORY, pa.string()):
        if pa.types.is_temporal(values.type):
            raise pa.ArrowTypeError("a time or a duration, expected a number")
        return as_array(values, wanted)
    # A column of whole numbers with nulls is one of floats in pandas.
    whole = values.cast(pa.int64()) if pa.types.is_floating(values.type) else values
    return as_array(whole.cast(pa.string()), wanted)


def _required(table: pa.Table, site: str) -> dict[str, pa.Array]:
    """The columns that JOBS needs and a frame may lack: site, job id, restart, and the place of the record."""
    n, schema = table.num_rows, JOBS.schema()
    standing = {
        "site": [site] * n, "job_id": [str(row + 1) for row in range(n)], "restart": np.zeros(n, np.int64),
        "source_file": ["data frame"] * n, "source_line": np.arange(1, n + 1),
    }  # fmt: skip
    return {
        name: as_array(values, schema.field(name).type)
        for name, values in standing.items()
        if name not in table.column_names or table.column(name).null_count == n
    }


def _require_one_row_per_job(columns: Mapping[str, pa.Array], what: str) -> None:
    """InputError where two rows have one job id: they may be attempts of a job, or the same record twice."""
    keys = pa.table({name: columns[name] for name in JOBS.key if name in columns})
    n_repeated = keys.num_rows - keys.group_by(keys.column_names).aggregate([]).num_rows
    if n_repeated:
        do = "number the attempts of a job in a column restart, from 0"
        raise InputError(what, f"{n_repeated} rows that repeat a job_id", "one row per job_id and restart", do)


def _order(columns: Mapping[str, pa.Array]) -> pa.Array:
    keys = {name: columns[name] for name in _KEY if name in columns}
    return pc.sort_indices(pa.table(keys), [(name, "ascending") for name in keys])
