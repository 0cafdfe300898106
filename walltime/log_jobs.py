"""Reads accounting logs into frames of jobs, and sets doubtful jobs aside."""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipeline.clean import SET
from pipeline.clean import clean as clean_jobs
from pipeline.errors import printable
from pipeline.ingest import ingest
from pipeline.tables import JOBS
from walltime.frames import frame_kind, frame_of, plain
from walltime.jobs_frame import Site, log_of, settings_for


class UnreadableLinesWarning(UserWarning):
    """Lines of a log could not be read, and their jobs are not in the frame."""


def read(
    path: str | Path | Sequence[str | Path],
    site: Site = None,
    *,
    config: str | Path | None = None,
    frame: str = "pandas",
) -> Any:
    """The jobs of accounting logs, one row per record of one allocation, in order of submit.

    Formats are found by content: `sacct` dumps and JSON, accounting files of OpenPBS and TORQUE, the Standard Workload
    Format, and tables that `walltime ingest` wrote; each may be compressed. `walltime show --columns
    jobs` explains the columns.

    Parameters
    ----------
    path : str, Path or sequence of these
        Logs, folders or globs of one site.
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
    (95, dtype('float64'))
    """
    kind = frame_kind(frame)
    settings = settings_for(config, site)
    paths = [path] if isinstance(path, str | Path) else list(path)
    jobs, unreadable, _ = ingest([Path(one) for one in paths], settings.site, settings.ingest)
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
    (95, 25, 2)
    """
    settings = settings_for(config, site)
    given = log_of(jobs, "clean", settings)
    flagged = clean_jobs(given.jobs, settings.clean, settings.site)[0]
    return frame_of(given.with_columns(flagged, SET), given.kind)
