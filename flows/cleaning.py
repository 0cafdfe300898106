"""What `walltime clean` does, apart from printing."""

import os
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from flows.config import config_settings
from flows.failures import naming
from flows.signals import unwinding_on_signals
from flows.tables_out import check_suffix, write_any, write_any_batches, write_page
from pipeline.clean import BURST_FLAGS, SCREENED, SET, clean
from pipeline.core.errors import InputError, TableError
from pipeline.core.flags import Flag
from pipeline.core.report import Report
from pipeline.core.settings import RunSettings, SiteSettings
from pipeline.core.store import read_batches, read_metadata, read_table
from pipeline.core.tables import BURSTS, EFFECT, JOBS
from pipeline.core.text import printable
from pipeline.publish.spill_folder import spill_folder

_EXPECTED = "a table of jobs, as walltime ingest writes it"


@dataclass(frozen=True, slots=True)
class Cleaned:
    """A log after cleaning: its jobs flagged, its bursts, what changed, the account, under which settings."""

    jobs: pa.Table
    """Only what the screens read and set; the rest stays on disk."""
    bursts: pa.Table
    effect: pa.Table
    report: Report
    settings: RunSettings
    source: Path

    @property
    def title(self) -> str:
        """What these jobs are called: their clusters, or the logs they come from where nobody named the cluster."""
        sites = _names(self.jobs, "site")
        unnamed = SiteSettings().name
        return sites if sites not in ("", unnamed) else _names(self.jobs, "source_file") or self.settings.site.name

    def burst_rows(self) -> list[dict[str, Any]]:
        """BURSTS in plain values: removed ones first, then suspects, each furthest ahead first.

        Beside its columns: outcome, what became of its jobs once the site's own rules were heard.
        """
        flags = self.jobs.column("flag").cast(pa.string())
        own = [str(flag) for flag in BURST_FLAGS.values()]
        kept, dropped = self._with(pc.is_null(flags)), self._with(pc.equal(flags, str(Flag.SITE_DROP)))
        flagged = self._with(pc.is_in(flags, value_set=pa.array(own)))
        rows = sorted(self.bursts.to_pylist(), key=_prominence)
        return [row | {"outcome": _outcome(row, kept, dropped, flagged)} for row in rows]

    def _with(self, chosen: pa.ChunkedArray) -> set[str]:
        """The bursts that some of these jobs belong to."""
        return set(self.jobs.column("burst_id").filter(chosen).drop_null().unique().to_pylist())


def _outcome(burst: Mapping[str, Any], kept: Container[str], dropped: Container[str], flagged: Container[str]) -> str:
    """Some jobs of a strong burst are without a flag only where a rule, or a flag that is off, spares them."""
    name = burst["burst_id"]
    if burst["tier"] == "remove":
        return "set aside" if name not in kept else "kept in part" if name in flagged else "kept by rule"
    return "suspect" if name not in dropped else "dropped in part" if name in kept else "dropped by rule"


def _names(jobs: pa.Table, column: str) -> str:
    first, *others = sorted(str(name) for name in jobs.column(column).unique().drop_null().to_pylist()) or [""]
    return f"{first} and {len(others)} more" if others else first


def _prominence(burst: dict[str, Any]) -> tuple[bool, float, int, str]:
    ahead = burst["machine_weeks"]
    # Probes and timers run all through the log, and are behind nobody.
    return (
        burst["tier"] != "remove",
        -(float("inf") if ahead is None else ahead),
        -burst["n_jobs"],
        burst["burst_id"],
    )


def clean_jobs(path: Path, config: Path | None) -> Cleaned:
    """The jobs of a table, cleaned under a config's settings or the defaults; InputError where it is no such table."""
    settings = config_settings(config) if config else RunSettings()
    jobs, bursts, effect, report = clean(_read_jobs(path), settings.clean, settings.site)
    return Cleaned(jobs, bursts, effect, report.check(), settings, path)


def _read_jobs(path: Path) -> pa.Table:
    where = printable(str(path))
    if not path.is_file():
        raise InputError(where, "a folder" if path.is_dir() else "no such file", _EXPECTED, "give the path of one")
    try:
        if (named := read_metadata(path).get("table", "another")) != JOBS.name:
            raise InputError(where, f"{printable(named, 40)} table", _EXPECTED)
        return read_table(path, JOBS, only=SCREENED)
    except pa.ArrowInvalid:
        raise InputError(where, "a file that is no Parquet table", _EXPECTED) from None
    except TableError as error:
        found = f"a table of jobs that breaks its own rules ({printable(str(error), 160).rstrip('.')})"
        raise InputError(where, found, _EXPECTED, "make it anew with walltime ingest") from None


def check_paths(source: Path, out: Path, report: Path | None) -> None:
    """InputError, before any work, where the paths cannot be written or are in each other's way."""
    check_suffix(out)
    if report is None:
        return
    if report.is_dir() or report.suffix not in (".html", ".htm"):
        found = "a folder" if report.is_dir() else "no page's name"
        raise InputError(f"--report {printable(str(report))}", found, "the path of a page, as in page.html")
    if report.resolve() in {path.resolve() for path in (source, *_paths(out).values())}:
        raise InputError(f"--report {printable(str(report))}", "the path of a table", "a path of its own")


def _paths(out: Path) -> dict[str, Path]:
    beside = {kind.name: out.with_name(f"{out.stem}.{kind.name}{out.suffix}") for kind in (BURSTS, EFFECT)}
    return {JOBS.name: out} | beside


def write_cleaned(cleaned: Cleaned, out: Path, page: str | None, report: Path | None) -> dict[str, Path]:
    """Write the tables, and the page if there is one: first all of them aside, then each into its place."""
    tables = {BURSTS: cleaned.bursts, EFFECT: cleaned.effect}
    paths = _paths(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    with naming(out), unwinding_on_signals(), spill_folder(out.parent) as scratch:
        staged = [write_any_batches(scratch / out.name, _flagged(cleaned), JOBS, _said(cleaned.source))]
        staged += [write_any(scratch / paths[kind.name].name, table, kind) for kind, table in tables.items()]
        if page is not None and report is not None:
            write_page(report, page)
        _put_in_place(staged, list(paths.values()))
    return paths | ({"page": report} if page is not None and report is not None else {})


def _flagged(cleaned: Cleaned) -> Iterator[pa.Table]:
    """The jobs with all their columns, some at a time, and what cleaning set."""
    start = 0
    for batch in read_batches(cleaned.source, JOBS):
        own = cleaned.jobs.slice(start, batch.num_rows)
        for name in SET:
            batch = batch.set_column(batch.column_names.index(name), JOBS.schema().field(name), own.column(name))  # noqa: PLW2901
        start += batch.num_rows
        yield JOBS.check(batch)


def _said(source: Path) -> dict[str, str]:
    """What the jobs' file says of itself beside its columns."""
    return {name: text for name, text in read_metadata(source).items() if name not in ("table", "ARROW:schema")}


def _put_in_place(staged: Sequence[Path], paths: Sequence[Path]) -> None:
    """The jobs last: who finds them finds what belongs to them."""
    for draft, path in reversed(list(zip(staged, paths, strict=True))):
        os.replace(draft, path)  # noqa: PTH105
