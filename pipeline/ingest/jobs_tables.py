"""Reads tables JOBS that `walltime ingest` has written, as if their logs were read."""

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.core.errors import ConfigError, InputError, TableError
from pipeline.core.report import Fact, Report, Tally
from pipeline.core.settings import SiteSettings
from pipeline.core.store import read_metadata, read_older_batches, read_table, schema_names
from pipeline.core.tables import JOBS, UNREADABLE
from pipeline.core.text import printable
from pipeline.ingest.assemble.combine import in_order, with_sorted_categories
from pipeline.ingest.passed_jobs import NotInOrderError, PassedJobs, as_read, tally_of
from pipeline.ingest.privacy import ANONYMISED, hasher_of
from pipeline.ingest.sources import Source

Write = Callable[[Path, Iterator[pa.Table]], object]
"""Writes tables JOBS, one after another, as one file."""

OTHER_SITE = "other_site"
OWN_TABLE = (
    "walltime run, backtest and clean take a table that walltime ingest wrote, and `import walltime` in Python the "
    "data frame of any other"
)
_PARQUET = b"PAR1"


def is_table(source: Source) -> bool:
    """Whether a source is a Parquet file."""
    if source.opened:
        return False
    try:
        with source.path.open("rb") as file:
            return file.read(len(_PARQUET)) == _PARQUET
    except OSError:
        # The reader of logs says what is wrong with the file.
        return False


def names_key(sources: Sequence[Source], site: SiteSettings) -> str:
    """A digest of the key that hashes names, from the settings or from the tables; empty where names are plain.

    ConfigError where the site anonymises, and a table has plain names or names hashed under another key.
    """
    would = hasher_of(site).mark.get(ANONYMISED, "")
    marks = {_mark(source.path) if is_table(source) else would for source in sources}
    if marks in ({would}, set()):
        return would
    if would or len(marks) > 1:
        where = ", ".join(printable(source.label) for source in sources[:3])
        expected = "names hashed under the site's key" if would else "names under one key"
        raise ConfigError(where, "names that are plain or hashed under another key", expected, "ingest the logs anew")
    return marks.pop()


def _mark(path: Path) -> str:
    return read_metadata(path).get(ANONYMISED, "")


def read_jobs_tables(sources: Sequence[Source], site: SiteSettings) -> tuple[pa.Table, pa.Table, Report]:
    """The JOBS of the site in some tables, UNREADABLE of the logs they come from, and the report of both.

    The jobs are as ingest wrote them: what cleaning and grouping have set is unknown again. InputError where a file is
    no table of jobs, where two tables have the same job, or where there is no job of the site.
    """
    _check_tables(sources, site)
    batches = [batch for source in sources for batch in _batches(source)]
    whole = _joined(batches, sources)
    is_own = pc.equal(whole["site"], site.name)
    # A copy would hold every column, also those without values.
    jobs = whole if pc.all(is_own).as_py() else whole.filter(is_own)
    if not jobs.num_rows:
        raise _no_job(whole, sources, site)
    jobs = with_sorted_categories(in_order(jobs))
    return jobs, _unreadable(sources), _report(whole, jobs, sources)


def _check_tables(sources: Sequence[Source], site: SiteSettings) -> None:
    """InputError where a source is a log, ConfigError where names are hashed otherwise than the site says."""
    logs = [source for source in sources if not is_table(source)]
    if logs:
        found = f"a log beside {printable(next(s.label for s in sources if is_table(s)))}, a table of jobs"
        raise InputError(printable(logs[0].label), found, "logs or tables", "add it with walltime ingest --update")
    names_key(sources, site)


def write_jobs_table(source: Source, site: SiteSettings, out: Path, write: Write) -> tuple[pa.Table, Report] | None:
    """Put the jobs of the site in one table into a file, a batch at a time; UNREADABLE and the report.

    A table that holds just these jobs as ingest writes them is copied. None, and no file, where the jobs are not in
    order or one may be there twice: `read_jobs_tables` is for such a table.
    """
    _check_tables([source], site)
    passed = PassedJobs(site.name)
    try:
        for _ in passed.batches(_batches(source)):
            pass
        if not passed.kept.rows or passed.repeats():
            return None
        if passed.is_as_read and schema_names(source.path, JOBS) == JOBS.schema().names:
            # Not linked: whoever writes the table again may write into the same file.
            shutil.copyfile(source.path, out)
        else:
            write(out, PassedJobs(site.name).batches(_batches(source)))
    except NotInOrderError:
        return None
    return _unreadable([source]), _report_of(passed.seen, passed.kept, passed.span_s, [source])


def _batches(source: Source) -> Iterator[pa.Table]:
    named = read_metadata(source.path).get("table", "another")
    if named != JOBS.name:
        found = f"{printable(named, 40)} table"
        raise InputError(printable(source.label), found, "a table of jobs, as walltime ingest writes it", OWN_TABLE)
    return read_older_batches(source.path, JOBS)


def _joined(batches: Sequence[pa.Table], sources: Sequence[Source]) -> pa.Table:
    whole = pa.concat_tables([JOBS.empty(), *batches]).unify_dictionaries()
    try:
        return JOBS.check(as_read(whole))
    except TableError as error:
        where = ", ".join(printable(source.label) for source in sources[:3])
        found = f"jobs that cannot stand in one table ({printable(str(error), 160).rstrip('.')})"
        raise InputError(where, found, "each job once", "join the logs with walltime ingest") from None


def _no_job(whole: pa.Table, sources: Sequence[Source], site: SiteSettings) -> InputError:
    where = ", ".join(printable(source.label) for source in sources[:3])
    sites = sorted(map(str, whole["site"].unique().to_pylist()))
    shown = printable(", ".join(sites[:5]), 100)
    found = f"only jobs of {shown}" if sites else "no job"
    return InputError(where, found, f"jobs of {printable(site.name, 60)}", "set site.name to theirs" if sites else "")


def _unreadable(sources: Sequence[Source]) -> pa.Table:
    """What could not be read of the logs, from the tables that stand beside those of the jobs."""
    beside = [path.with_name(f"{path.stem}.{UNREADABLE.name}{path.suffix}") for path in (s.path for s in sources)]
    found = [read_table(path, UNREADABLE) for path in beside if path.is_file()]
    return UNREADABLE.check(pa.concat_tables([UNREADABLE.empty(), *found]))


def _report(whole: pa.Table, jobs: pa.Table, sources: Sequence[Source]) -> Report:
    return _report_of(tally_of(whole), tally_of(jobs), pc.min_max(jobs["submit_s"]).as_py(), sources)


def _report_of(seen: Tally, kept: Tally, span_s: Mapping[str, int | None], sources: Sequence[Source]) -> Report:
    other = Tally(seen.rows - kept.rows, seen.proc_s - kept.proc_s)
    facts: dict[str, Fact] = {
        "format": JOBS.name, "files": len(sources), "bytes": sum(source.path.stat().st_size for source in sources),
        "jobs": kept.rows, "first_submit_s": span_s["min"], "last_submit_s": span_s["max"],
    }  # fmt: skip
    return Report("ingest", "job", seen, kept, {OTHER_SITE: other} if other.rows else {}, facts).check()
