"""What `walltime ingest` prints."""

import shlex
from collections.abc import Mapping
from pathlib import Path

from flows.pages.terminal.render import console, pairs, report_table, say
from flows.services.quantities import instant
from pipeline.core.report import Report


def print_ingested(report: Report, written: Mapping[str, Path]) -> None:
    """Print the report, its notes, and the paths of the tables."""
    out = console()
    out.print(report_table(report))
    out.print(pairs("", {name: _with_time(name, value) for name, value in report.facts.items()}))
    for note in report.notes:
        out.print(f"Note: {say(note, 500)}")
    for name, path in written.items():
        out.print(f"Wrote {name} to {say(path, 1000)}", soft_wrap=True)
    if "unreadable" in written:
        out.print(
            f"See them with: walltime quarantine {say(shlex.quote(str(written['unreadable'])), 1000)}", soft_wrap=True
        )


def _with_time(name: str, value: object) -> object:
    return f"{value} ({instant(value)})" if name.endswith("submit_s") and isinstance(value, int) else value
