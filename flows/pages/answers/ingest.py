"""What `walltime ingest` answers: the jobs that it read, or what a dry run would read."""

import shlex
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from flows.pages.formats import any_value
from flows.pages.terminal.blocks import Block, Column, Exact, Facts, Grid, notes, report_grid, wrote
from flows.services.quantities import instant, iso_time
from pipeline.report import Report


def _time(value: object) -> str:
    return iso_time(value) if isinstance(value, int) else ""


FIRST_JOBS = (
    *(Column(name, form=any_value, is_text=True, limit=60) for name in ("job_id", "user", "application")),
    *(Column(name, form=_time) for name in ("submit_s", "start_s")),
    *(Column(name, form=any_value, limit=60) for name in ("procs", "runtime_s", "requested_s", "state")),
)
"""What is shown of a log's first jobs, as `walltime show` prints it: times as UTC."""


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
