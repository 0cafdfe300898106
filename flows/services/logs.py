"""Which settings and logs a command means, how it reads them, and what `walltime ingest` and `clean` write.

Of a live source a table of jobs is kept, to which each reading adds what sacct has recorded since the one before. A
reading asks for the time from the last one's end, and for some time before it (OVERLAP_S), because records come late;
running jobs are in every window. The table and the time up to which it is complete change together: the table's name
has its digest in it, and one small file, replaced in one step, names the table and the time. Readers of an earlier
table keep it for some readings more.
"""

import glob
import hashlib
import json
import os
import time
import tomllib
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from flows.services.files.os_errors import config_settings
from flows.services.files.table_files import scratch_folder, write_any, write_any_batches, write_page
from flows.services.progress import running_stage
from flows.services.quantities import instant_s, period_s, seconds
from pipeline.arrays import DAY_S
from pipeline.errors import ConfigError, InputError, TableError, printable
from pipeline.ingest import CUT_BY_BOUND, Inspection, OnDisk, Source, ingest
from pipeline.ingest.jobs_tables import OWN_TABLE
from pipeline.ingest.live import Window, live
from pipeline.ingest.privacy import hasher_of, with_hashed_names
from pipeline.ingest.sources import find_sources, is_table
from pipeline.publish.store import keep_tables, kept_table
from pipeline.report import Report, parsed_json
from pipeline.schema import Flag
from pipeline.settings import IngestSettings, RunSettings, SiteSettings, parse_settings
from pipeline.storage import read_metadata, read_table, sync
from pipeline.tables import BURSTS, EFFECT, JOBS

_JOBS_SHOWN, _UNREADABLE_SHOWN = 10, 5
LIVE_DAYS = 7
"""Days back from its end that a window begins, where neither --since nor source.since says."""

_TOKEN_BYTES = 4

Reading = tuple[Sequence[Path | Source], SiteSettings, IngestSettings]


def resolve(config: Path, logs: Sequence[str] = ()) -> tuple[RunSettings, list[Path]]:
    """The settings and logs of a run: the given logs, or those of the config's source; only sacct's are read here."""
    settings = run_settings(config)
    paths = listed_paths(settings, config, logs)
    return settings, [sacct_table(settings)] if paths is None else paths


def settings_and_logs(given: Path) -> tuple[str, RunSettings, list[Path]]:
    """Name, settings and logs of a config (.toml), or of a log, which is read with the default settings."""
    if given.suffix == ".toml":
        settings, paths = resolve(given)
        return settings.site.name, settings, paths
    return given.name, RunSettings(), find_logs([str(given)], Path())


def run_settings(config: Path, site: str | None = None, out: str | None = None) -> RunSettings:
    """The settings of a config; the other arguments override them."""
    if out == "":
        raise ConfigError("--out", "an empty path", "the folder that tables go to")
    return replaced(config_settings(config), {"site.name": site, "output_dir": out}, "--site")


def replaced(settings: RunSettings, values: Mapping[str, object], where: str) -> RunSettings:
    """The settings with other values by their keys, as in site.name; None leaves a setting as it is.

    ConfigError, which names where they are from, for a wrong one.
    """
    plain = settings.model_dump(exclude_unset=True)
    for key, value in values.items():
        *sections, name = key.split(".")
        section = plain
        for part in sections:
            section = section.setdefault(part, {})
            if not isinstance(section, dict):
                raise ConfigError(where, f"{printable(part)}, which is no section", "a key in a section")
        if value is not None:
            section[name] = value
    return parse_settings(plain, where)


def with_changes(settings: RunSettings, changes: Sequence[str]) -> RunSettings:
    """The settings with some replaced, each given as in group.template=user; ConfigError names a wrong one.

    The value is read as TOML, and as a text where it is none.
    """
    for change in changes:
        given, is_set, text = change.partition("=")
        key, where = ".".join(part.strip() for part in given.split(".")), f"--set {printable(change)}"
        if not is_set or not key:
            raise ConfigError(where, "no key and value", "SECTION.KEY=VALUE, as in group.template=user")
        if key in ("logs", "output_dir"):
            raise ConfigError(where, f"{key}, which is no setting of a stage", "--log PATH, or --out DIR")
        try:
            # A text with a line end could hold more keys.
            (value,) = tomllib.loads(f"value = [{text}]")["value"]
        except ValueError:
            value = text.strip()
        settings = replaced(settings, {key: value}, where)
    return settings


def listed_paths(settings: RunSettings, config: Path, logs: Sequence[str] = ()) -> list[Path] | None:
    """The given logs, else the files of the config's source; None where sacct has to be asked (`sacct_table`)."""
    if logs:
        return find_logs(logs, Path())
    source, where = settings.source, printable(str(config))
    if source.kind != "logs" and settings.logs:
        raise ConfigError(where, f"logs beside source.kind = {source.kind}", "one of them", "remove the other")
    match source.kind:
        case "sacct":
            return None
        case "folder":
            folder = _given(str(source.folder), config.parent)
            if not folder.is_dir():
                raise ConfigError(where, f"source.folder = {printable(str(folder))}", "a folder of logs")
            return find_logs([str(Path(glob.escape(str(folder.absolute()))) / source.pattern)], Path())
        case "jobs":
            return find_logs([str(source.path)], config.parent)
    if not settings.logs:
        found = "no logs" if "logs" not in settings.model_fields_set else "an empty list of logs"
        do = "set logs or [source], or give --log PATH"
        raise ConfigError(where, found, "at least one path or glob", do)
    return find_logs(settings.logs, config.parent)


def find_logs(patterns: Sequence[str], base: Path) -> list[Path]:
    """The files of paths, folders and globs below `base`, each once; InputError for one without files."""
    return [source.path for source in find_sources([_given(pattern, base) for pattern in patterns])]


def _given(pattern: str, base: Path) -> Path:
    """The pattern below `base`, as a path; if it is a glob, the magic characters of `base` itself are escaped."""
    path = Path(pattern).expanduser()
    is_plain = path.is_absolute() or (base / path).exists() or not glob.has_magic(pattern)
    return base / path if is_plain else Path(glob.escape(str(base))) / path


def window_of(begin: str | None, end: str | None, timezone: str) -> tuple[int | None, int | None]:
    """Begin and end of the window from the texts of --since and --until; a month or day of --until is included."""
    begin_s = None if begin is None else period_s("--since", begin, timezone)[0]
    end_s = None if end is None else period_s("--until", end, timezone)[1]
    if begin_s is not None and end_s is not None and begin_s >= end_s:
        found = f"an end before --since {printable(str(begin))}"
        raise InputError(f"--until {printable(str(end))}", found, "a later time")
    return begin_s, end_s


def flagged_jobs(paths: Sequence[Path], settings: RunSettings, log: str = "") -> tuple[pa.Table, Report]:
    """JOBS of some logs with their flags, and the report of ingest; InputError where a log cannot be read.

    `log` is the name that progress shows.
    """
    from pipeline.clean import clean  # noqa: PLC0415  (ingest does not need it)

    with running_stage(f"{printable(log, 40)}: read" if log else "read") as stage:
        jobs, _, report = ingest(paths, settings.site, settings.ingest)
        stage.report = report
    flagged, *_ = clean(jobs, with_hashed_names(settings).clean, settings.site)
    return flagged, report


_EXPECTED = "a table of jobs, as walltime ingest writes it"


def jobs_of_table(path: Path) -> pa.Table:
    """JOBS as a Parquet file has them, with the flags that are set there; InputError where it is no table of jobs."""
    where = printable(str(path))
    if not path.is_file():
        raise InputError(where, "a folder" if path.is_dir() else "no such file", _EXPECTED, "give the path of one")
    try:
        if (named := read_metadata(path, _EXPECTED).get("table", "another")) != JOBS.name:
            raise InputError(where, f"{printable(named, 40)} table", _EXPECTED, OWN_TABLE)
        return read_table(path, JOBS)
    except TableError as error:
        found = f"a table of jobs that breaks its own rules ({printable(str(error), 160).rstrip('.')})"
        raise InputError(where, found, _EXPECTED, "make it anew with walltime ingest") from None


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


def write_jobs(
    logs: Sequence[Path | Source], site: SiteSettings, how: IngestSettings, out: Path, *, is_update: bool = False,
    earlier: Path | None = None,
) -> tuple[Report, dict[str, Path]]:  # fmt: skip
    """Ingest logs; returns the report, and the tables' paths by name.

    The jobs of an earlier table are added; with is_update it is `out` itself, where that exists.
    """
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


def inspected(found: Inspection) -> dict[str, Any]:
    """What is found in a log, in plain values for JSON, with the first jobs and the first few unreadable lines."""
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


def sacct_table(settings: RunSettings, now_s: int | None = None) -> Path:
    """Read sacct up to now (UTC epoch seconds); returns the table in the output folder to which the jobs were added.

    A table of other settings, or one that is damaged, is not added to: all is read again from `source.since` on.
    InputError where sacct fails.
    """
    now_s = int(time.time()) if now_s is None else now_s
    pointer, key = Path(settings.output_dir) / FOLDER / _MARK, _key(settings)
    with scratch_folder(pointer) as scratch:
        earlier, window = None, time_window(None, None, settings, now_s)
        # Without a mark, or with a table that is not what was written, all is read.
        with suppress(InputError, OSError, ValueError, KeyError, TypeError):
            mark, table = parsed_json(pointer.read_text(encoding="utf-8")), kept_table(pointer)
            if table is not None and mark["key"] == key:
                # A clock that was set back must not leave an empty window.
                window = Window(min(int(mark["until_s"]), now_s - 1) - OVERLAP_S, now_s)
                earlier = table
        with sacct_records(settings, window) as (logs, site, how):
            _, written = write_jobs(logs, site, how, scratch / "reading.parquet", earlier=earlier)
        return keep_tables(pointer, written, {"key": key, "until_s": window.until_s})


def _key(settings: RunSettings) -> str:
    """A digest of the settings that the values in the table depend on."""
    kept: Any = {"site": {"name", "anonymise"}, "source": {"cluster", "since"}, "ingest": True, "inputs": True}
    content = settings.model_dump(mode="json", include=kept, exclude={"ingest": {"sacct_command"}})
    content["names"] = hasher_of(settings.site).mark
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:24]


@dataclass(frozen=True, slots=True)
class Cleaned:
    """A cleaned log: flagged jobs, bursts, effect of the flags, report, settings and source."""

    jobs: pa.Table
    bursts: pa.Table
    effect: pa.Table
    report: Report
    settings: RunSettings
    source: Path

    @property
    def title(self) -> str:
        """The first cluster of the jobs, or the file's name where no cluster is named."""
        sites = sorted({*self.jobs.column("site").unique().to_pylist()} - {SiteSettings().name})
        return str(sites[0]) if sites else self.source.name

    def burst_rows(self) -> list[dict[str, Any]]:
        """BURSTS in plain values: removed bursts first, then suspects, each in falling order of prominence.

        Added to its columns: outcome, which says what the site's own rules left of the burst.
        """
        flags = defaultdict[str, set[str | None]](set)
        for row in self.jobs.select(["burst_id", "flag"]).group_by(["burst_id", "flag"]).aggregate([]).to_pylist():
            flags[row["burst_id"]].add(row["flag"])
        rows = [row | {"outcome": _outcome(row["tier"], flags[row["burst_id"]])} for row in self.bursts.to_pylist()]

        def rank(row: Mapping[str, Any]) -> tuple[bool, float, int, str]:
            # Probes and timers run through the whole log and have no machine-weeks.
            ahead = float("inf") if row["machine_weeks"] is None else row["machine_weeks"]
            return row["tier"] != "remove", -ahead, -row["n_jobs"], row["burst_id"]

        return sorted(rows, key=rank)


def _outcome(tier: str, flags: Collection[str | None]) -> str:
    """Jobs of a burst to remove have no flag only where a rule keeps them or the flag is turned off."""
    if tier == "remove":
        from pipeline.clean import BURST_FLAGS  # noqa: PLC0415

        own = {str(flag) for flag in BURST_FLAGS.values()}
        return "set aside" if None not in flags else "kept in part" if own & set(flags) else "kept by rule"
    return "suspect" if str(Flag.SITE_DROP) not in flags else "dropped in part" if None in flags else "dropped by rule"


def clean_jobs(path: Path, config: Path | None) -> Cleaned:
    """Clean a table of jobs with a config's settings or the defaults; InputError where it is no table of jobs."""
    from pipeline.clean import clean  # noqa: PLC0415

    settings = with_hashed_names(config_settings(config)) if config else RunSettings()
    jobs, bursts, effect, report = clean(jobs_of_table(path), settings.clean, settings.site)
    return Cleaned(jobs, bursts, effect, report.check(), settings, path)


def write_cleaned(cleaned: Cleaned, out: Path, report: Path | None, page: str) -> dict[str, Path]:
    """Write the tables and the page, if any: first all to a scratch folder, then each to its place."""
    tables = {BURSTS: cleaned.bursts, EFFECT: cleaned.effect}
    paths = {kind.name: out.with_name(f"{out.stem}.{kind.name}{out.suffix}") for kind in tables}
    with scratch_folder(out) as scratch:
        # Without the entries that writing adds.
        added = ("table", "ARROW:schema")
        metadata = {name: text for name, text in read_metadata(cleaned.source).items() if name not in added}
        write_any_batches(scratch / out.name, [cleaned.jobs], JOBS, metadata)
        for kind, table in tables.items():
            write_any(scratch / paths[kind.name].name, table, kind)
        if report is not None:
            write_page(report, page)
        # The jobs come last, so that a reader who finds them also finds the tables beside them.
        for path in (*paths.values(), out):
            (scratch / path.name).replace(path)
    return {JOBS.name: out} | paths | ({} if report is None else {"page": report})
