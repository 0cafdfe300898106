"""What `walltime ingest` does: logs, or sacct's records of a time window, in; tables JOBS and UNREADABLE out.

Of a live source a table of jobs is kept, to which each reading adds what sacct has recorded since the one before. A
reading asks for the time from the last one's end, and for some time before it (OVERLAP_S), because records come late;
running jobs are in every window. The table and the time up to which it is complete change together: the table's name
has its digest in it, and one small file, replaced in one step, names the table and the time. Readers of an earlier
table keep it for some readings more.
"""

import hashlib
import json
import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from flows.services.files.os_errors import config_settings
from flows.services.files.table_files import check_suffix, scratch_folder, write_any_batches
from flows.services.quantities import instant_s, seconds
from pipeline.arrays import DAY_S
from pipeline.errors import InputError, printable
from pipeline.ingest import CUT_BY_BOUND, Inspection, OnDisk, Source, ingest, inspect
from pipeline.ingest.live import Window, live
from pipeline.ingest.privacy import hasher_of
from pipeline.ingest.sources import find_sources, is_table
from pipeline.publish.store import keep_tables, kept_table
from pipeline.report import Report, parsed_json
from pipeline.settings import IngestSettings, RunSettings, SiteSettings, parse_settings
from pipeline.storage import sync

_JOBS_SHOWN, _UNREADABLE_SHOWN = 10, 5
LIVE_DAYS = 7
"""Days back from its end that a window begins, where neither --since nor source.since says."""

_TOKEN_BYTES = 4

Reading = tuple[Sequence[Path | Source], SiteSettings, IngestSettings]


@contextmanager
def log_sources(
    paths: Sequence[str], is_live: bool, since: str | None, until: str | None, settings: RunSettings
) -> Iterator[Reading]:
    """The logs to read, and their settings: the given paths, or sacct's records of the window, but not both."""
    if not is_live:
        if since or until:
            raise InputError("--since and --until", "no --live", "--live beside them", "files are read whole")
        if not paths:
            raise InputError("the command line", "no log", "PATH... or --live")
        yield [Path(path) for path in paths], settings.site, settings.ingest
        return
    if paths:
        raise InputError("the command line", f"--live and {printable(paths[0])}", "one of the two")
    with sacct_records(settings, time_window(since, until, settings, int(time.time()))) as reading:
        yield reading


@contextmanager
def sacct_records(settings: RunSettings, window: Window) -> Iterator[Reading]:
    """sacct's records of a window, with the settings under which ingest reads them."""
    token, cluster = os.urandom(_TOKEN_BYTES), settings.source.cluster
    with live(settings.site, settings.ingest, window, os.environ, token, cluster) as (source, site, read_under):
        yield [source], site, read_under


def time_window(since: str | None, until: str | None, settings: RunSettings, now_s: int) -> Window:
    """The window from `since` (default: the source's, else some days before its end) to `until` (default: now).

    Texts are ISO dates or instants, in the site's zone where they name none; the source's `since` may be a duration.
    UTC epoch seconds; ConfigError or InputError for a text that is neither.
    """
    zone = settings.site.timezone
    until_s = instant_s("--until", until, zone) if until else now_s
    usual = settings.source.since
    if since:
        return Window(instant_s("--since", since, zone), until_s)
    if usual is None:
        return Window(until_s - LIVE_DAYS * DAY_S, until_s)
    try:
        return Window(until_s - int(seconds(usual, "source.since")), until_s)
    except InputError:
        return Window(instant_s("source.since", usual, zone), until_s)


def settings_of(
    config: Path | None,
    format: str | None = None,
    site: str | None = None,
    timezone: str | None = None,
    key_file: str | None = None,
) -> RunSettings:
    """The settings of a config, or the defaults; the other arguments override them. ConfigError for a wrong value."""
    plain = config_settings(config).model_dump() if config else {"site": {}, "ingest": {}}
    given = {"name": site, "timezone": timezone, "key_file": key_file, "anonymise": True if key_file else None}
    plain["site"] |= {name: value for name, value in given.items() if value is not None}
    plain["ingest"] |= {"format": format} if format is not None else {}
    return parse_settings(plain, "the command line" if config is None else printable(str(config)))


def write_jobs(
    logs: Sequence[Path | Source], site: SiteSettings, how: IngestSettings, out: Path, *, is_update: bool = False,
    earlier: Path | None = None,
) -> tuple[Report, dict[str, Path]]:  # fmt: skip
    """Ingest logs; returns the report, and the tables' paths by name.

    The jobs of an earlier table are added; with is_update it is `out` itself, where that exists.
    """
    check_suffix(out)
    if is_update and out.suffix != ".parquet":
        raise InputError(f"--out {printable(str(out))}", "a CSV table to update", "a .parquet one")
    earlier = out if is_update and out.exists() else earlier
    if table := next(filter(is_table, find_sources(logs)), None):
        do = "give the table itself to walltime run, backtest or clean"
        raise InputError(printable(table.label), "a table, not a log", "logs to make one of", do)
    beside = out.with_name(f"{out.stem}.unreadable{out.suffix}")
    with scratch_folder(out) as scratch:
        jobs, lines = (scratch / path.name for path in (out, beside))
        *_, report = ingest(logs, site, how, earlier, to=OnDisk(jobs, lines, write_any_batches))
        # Both tables change when both are whole. The jobs come last, so that who finds them finds their lines.
        if lines.exists():
            lines.replace(beside)
        else:
            beside.unlink(missing_ok=True)
        jobs.replace(out)
        sync(out.parent)
    return report, {"jobs": out} | ({"unreadable": beside} if beside.exists() else {})


def inspected(logs: Sequence[str], settings: RunSettings, *, is_all: bool) -> list[dict[str, Any]]:
    """What is found in each log, in plain values, with its first jobs; InputError where no log is named."""
    if not logs:
        raise InputError("the command line", "no log", "one or more to look at")
    found = inspect([Path(log) for log in logs], settings.site, settings.ingest, is_all=is_all)
    return [_plain_inspection(one) for one in found]


def _plain_inspection(found: Inspection) -> dict[str, Any]:
    """The inspection in plain values for JSON, with the first jobs and the first few unreadable lines."""
    reasons = Counter(found.unreadable.column("reason").to_pylist())
    # If only the beginning was read, the last record is cut by that bound and not by the log.
    hidden = {*reasons, *(() if found.is_whole else CUT_BY_BOUND)}
    set_aside = {name: tally.rows for name, tally in found.report.set_aside.items()} if found.report else {}
    return {
        "log": found.label,
        "format": found.format,
        "compression": found.compression,
        "read": "all" if found.is_whole else "the beginning",
        "timezone": found.timezone,
        "error": found.error,
        "log_columns": list(found.layout.found),
        "log_columns_missing": list(found.layout.missing),
        "log_columns_ignored": list(found.layout.ignored),
        "columns": found.filled,
        "columns_empty": found.empty if found.format else [],
        "lines": found.report.seen.rows if found.report else 0,
        "n_jobs": found.jobs.num_rows,
        "set_aside": {name: n for name, n in set_aside.items() if n and name not in hidden},
        "quarantined": dict(sorted(reasons.items())),
        "notes": [*found.layout.said, *(found.report.notes if found.report else ())],
        "jobs": found.jobs.slice(0, _JOBS_SHOWN).to_pylist(),
        "unreadable": found.unreadable.slice(0, _UNREADABLE_SHOWN).to_pylist(),
    }


FOLDER = "source"
_MARK = "watermark.json"
OVERLAP_S = 21_600
"""What a later reading asks for again (s): slurmdbd stores records late where it was down or busy, rarely by hours."""

_NOT_CONTENT = {"sacct_command"}


def accumulated_jobs(settings: RunSettings, now_s: int) -> Path:
    """Read the source up to `now_s`; returns the table in the output folder to which its jobs have been added.

    A table of other settings, or one that is damaged, is not added to: all is read again from `source.since` on.
    InputError where sacct fails.
    """
    folder, key = Path(settings.output_dir) / FOLDER, _key(settings)
    with scratch_folder(folder / _MARK) as scratch:
        mark, window = _mark(folder / _MARK, key), time_window(None, None, settings, now_s)
        if mark:
            # A clock that was set back must not leave an empty window.
            window = Window(min(mark[1], now_s - 1) - OVERLAP_S, now_s)
        with sacct_records(settings, window) as (logs, site, how):
            _, written = write_jobs(logs, site, how, scratch / "reading.parquet", earlier=mark[0] if mark else None)
        return keep_tables(folder / _MARK, written, {"key": key, "until_s": window.until_s})


def _key(settings: RunSettings) -> str:
    """A digest of the settings that the values in the table depend on."""
    content = {
        "site": settings.site.model_dump(mode="json", include={"name", "anonymise"}),
        "names": hasher_of(settings.site).mark,
        "ingest": settings.ingest.model_dump(mode="json", exclude=_NOT_CONTENT),
        "inputs": settings.inputs.model_dump(mode="json"),
        "source": settings.source.model_dump(mode="json", include={"cluster", "since"}),
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:24]


def _mark(pointer: Path, key: str) -> tuple[Path, int] | None:
    """The table of the latest reading under these settings, and up to when it is complete (UTC epoch seconds).

    None where there is none, or its table is not what was written.
    """
    with suppress(InputError, OSError, ValueError, KeyError, TypeError):
        mark, table = parsed_json(pointer.read_text(encoding="utf-8")), kept_table(pointer)
        if table is not None and mark["key"] == key:
            return table, int(mark["until_s"])
    return None
