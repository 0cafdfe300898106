"""What `walltime ingest`, `walltime ingest --dry-run` and `walltime clean` print."""

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flows.pages.formats import any_value, number, percent
from flows.pages.terminal.blocks import Block, Column, Exact, Facts, Grid, notes, report_grid, text, wrote
from flows.services.quantities import instant, iso_time
from pipeline.report import Report

# Cleaning loads kernels, which `walltime ingest` can do without.
if TYPE_CHECKING:
    from flows.services.logs.cleaning import Cleaned

BURSTS_SHOWN = 10


def _time(value: object) -> str:
    return iso_time(value) if isinstance(value, int) else ""


FIRST_JOBS = (
    *(Column(name, form=any_value, is_text=True, limit=60) for name in ("job_id", "user", "application")),
    *(Column(name, form=_time) for name in ("submit_s", "start_s")),
    *(Column(name, form=any_value, limit=60) for name in ("procs", "runtime_s", "requested_s", "state")),
)
"""What is shown of a log's first jobs, as `walltime show` prints it: times as UTC."""

EFFECT = (
    text("", "selection"),
    Column("jobs", "n_jobs"),
    Column("users", "n_users"),
    Column("processor-hours", "proc_hours"),
    Column("mean runtime s", "runtime_s_mean"),
    Column("median", "runtime_s_median"),
    Column("mean procs", "procs_mean"),
    Column("median", "procs_median"),
    Column("jobs a day", "jobs_per_day_mean"),
    Column("median", "jobs_per_day_median"),
    Column("load"),
)


BURSTS = (
    text("burst", "burst_id"),
    text("", "outcome"),
    text("user", limit=40),
    Column("jobs", "n_jobs"),
    Column("days", "span_days"),
    Column("share", "share_of_span", partial(percent, digits=0)),
    Column("machine-weeks", "machine_weeks"),
    Column("same size", "alike_procs", partial(percent, digits=0)),
    Column("runtime spread", "runtime_spread"),
)
_BURST_FACTS = {
    "smallest_burst_jobs": "smallest burst that this log can show (jobs at once)",
    "bursts_removed": "bursts strong enough to set aside",
    "bursts_suspect": "bursts only suspected",
}


def view_ingested(report: Report, written: Mapping[str, Path]) -> Iterator[Block]:
    """The report, its notes, and the paths of the tables."""
    yield report_grid(report)
    yield Facts("", {name: _with_time(name, value) for name, value in report.facts.items()})
    yield from notes(report.notes)
    yield from wrote(written)
    if "unreadable" in written:
        file = shlex.quote(str(written["unreadable"]))
        yield Exact(f"See them with: walltime show unreadable --from {file}")


def _with_time(name: str, value: object) -> object:
    return f"{value} ({instant(value)})" if name.endswith("submit_s") and isinstance(value, int) else value


def view_inspections(found: Iterable[Mapping[str, Any]]) -> Iterator[Block]:
    """The facts, the first jobs and the notes of each log."""
    for one in found:
        yield Facts(one["log"], _facts(one))
        if one["jobs"]:
            yield Grid("", [column for column in FIRST_JOBS if column.heading in one["columns"]], one["jobs"])
        yield from notes([*([one["error"]] if one["error"] else []), *one["notes"]])


def _facts(found: Mapping[str, Any]) -> dict[str, Any]:
    facts = {"format": found["format"] or "unknown"}
    facts |= {name: found[name] for name in ("compression", "read", "timezone", "lines")} | {"jobs": found["n_jobs"]}
    facts |= {f"would be set aside: {name}": n for name, n in found["set_aside"].items()}
    facts |= {f"would be quarantined: {name}": n for name, n in found["quarantined"].items()}
    listed = {
        "columns read": "log_columns",
        "useful columns that the log lacks": "log_columns_missing",
        "columns not used": "log_columns_ignored",
        "JOBS columns left empty": "columns_empty",
    }
    return facts | {shown: ", ".join(found[name]) for shown, name in listed.items() if found[name]}


def view_cleaned(cleaned: "Cleaned", written: Mapping[str, Path], *, is_whole: bool) -> Iterator[Block]:
    """The report by flag, the effect, the bursts as table and sentences, and the written paths."""
    report, bursts = cleaned.report, cleaned.burst_rows()
    shown: Sequence[Mapping[str, Any]] = bursts if is_whole else bursts[:BURSTS_SHOWN]
    yield report_grid(report)
    yield Facts("", {_BURST_FACTS.get(name, name): value for name, value in report.facts.items()})
    yield ""
    yield Grid("Before and after, and what each flag set aside", EFFECT, cleaned.effect.to_pylist())
    if shown:
        yield Grid("Bursts", BURSTS, shown)
        yield from (f"{burst['burst_id']}: {burst['why']}" for burst in shown)
    if len(shown) < len(bursts):
        yield f"{number(len(bursts) - len(shown))} more: --all lists them, and so does the table of bursts."
    yield ""
    yield from notes(report.notes)
    yield from wrote(written)
