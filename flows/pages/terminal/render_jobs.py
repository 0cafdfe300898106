"""What `walltime ingest`, `walltime ingest --dry-run` and `walltime clean` print."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from flows.pages.terminal.json_out import print_json
from flows.pages.terminal.render import console, grid, number, pairs, percent, plain_number, report_table, say
from flows.services.quantities import instant, iso_time
from pipeline.report import Report

# Cleaning loads kernels, which `walltime ingest` can do without.
if TYPE_CHECKING:
    from flows.services.logs.cleaning import Cleaned


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
        file = say(shlex.quote(str(written["unreadable"])), 1000)
        out.print(f"See them with: walltime show unreadable --from {file}", soft_wrap=True)


def _with_time(name: str, value: object) -> object:
    return f"{value} ({instant(value)})" if name.endswith("submit_s") and isinstance(value, int) else value


_FIRST = ("job_id", "user", "application", "submit_s", "start_s", "procs", "runtime_s", "requested_s", "state")
_TIMES = ("submit_s", "start_s")


def print_inspection(found: dict[str, Any]) -> None:
    """Print the facts, the first jobs and the notes of one log; every text from the log is escaped."""
    out = console()
    facts = _facts(found)
    # A list of columns is longer than `pairs` shows.
    wide = {name: value for name, value in facts.items() if isinstance(value, str) and len(value) > 150}
    out.print(pairs(say(found["log"], 1000), {name: value for name, value in facts.items() if name not in wide}))
    for name, value in wide.items():
        out.print(f"{name}: {say(value, 4000)}")
    if found["jobs"]:
        columns = [name for name in _FIRST if name in found["columns"]]
        out.print(grid("", columns, [[_cell(name, job[name]) for name in columns] for job in found["jobs"]], texts=3))
    for note in [*([found["error"]] if found["error"] else []), *found["notes"]]:
        out.print(f"Note: {say(note, 500)}")


def _cell(name: str, value: object) -> str:
    """A job's value as `walltime show` prints it: times as UTC."""
    return iso_time(value) if name in _TIMES and isinstance(value, int) else plain_number(value)


def _facts(found: dict[str, Any]) -> dict[str, Any]:
    facts = {
        "format": found["format"] or "unknown",
        **{name: found[name] for name in ("compression", "read", "timezone")},
    }
    facts |= {"lines": found["lines"], "jobs": found["n_jobs"]}
    facts |= {f"would be set aside: {name}": n for name, n in found["set_aside"].items()}
    facts |= {f"would be quarantined: {name}": n for name, n in found["quarantined"].items()}
    for name, shown in (
        ("log_columns", "columns read"), ("log_columns_missing", "useful columns that the log lacks"),
        ("log_columns_ignored", "columns not used"), ("columns_empty", "JOBS columns left empty"),
    ):  # fmt: skip
        facts |= {shown: ", ".join(found[name])} if found[name] else {}
    return facts


BURSTS_SHOWN = 10
_FACTS = {
    "smallest_burst_jobs": "smallest burst that this log can show (jobs at once)",
    "bursts_removed": "bursts strong enough to set aside",
    "bursts_suspect": "bursts only suspected",
}
_EFFECT = (
    ("jobs", "n_jobs"), ("users", "n_users"), ("processor-hours", "proc_hours"), ("mean runtime s", "runtime_s_mean"),
    ("median", "runtime_s_median"), ("mean procs", "procs_mean"), ("median", "procs_median"),
    ("jobs a day", "jobs_per_day_mean"), ("median", "jobs_per_day_median"), ("load", "load"),
)  # fmt: skip


def print_cleaned_json(cleaned: "Cleaned", written: Mapping[str, Path]) -> None:
    """Print the report, the bursts in order, and the effect of the flags."""
    print_json(
        {
            "report": cleaned.report.as_dict(),
            "bursts": cleaned.burst_rows(),
            "effect": cleaned.effect.to_pylist(),
            "written": {name: str(path) for name, path in written.items()},
        }
    )


def print_cleaned(cleaned: "Cleaned", written: Mapping[str, Path], *, is_whole: bool) -> None:
    """Print the report by flag, the effect, the bursts as table and sentences, and the written paths."""
    out = console()
    out.print(report_table(cleaned.report))
    out.print(pairs("", {_FACTS.get(name, name): value for name, value in cleaned.report.facts.items()}))
    out.print()
    out.print(_effect(cleaned.effect.to_pylist()))
    bursts = cleaned.burst_rows()
    shown = bursts if is_whole else bursts[:BURSTS_SHOWN]
    if shown:
        out.print(_bursts(shown))
        for burst in shown:
            out.print(f"{say(burst['burst_id'])}: {say(burst['why'], 500)}")
    if len(shown) < len(bursts):
        out.print(f"{len(bursts) - len(shown):,} more: --all lists them, and so does the table of bursts.")
    out.print()
    for note in cleaned.report.notes:
        out.print(f"Note: {say(note, 500)}")
    for name, path in written.items():
        out.print(f"Wrote {say(name)} to {say(path, 1000)}", soft_wrap=True)


def _effect(rows: Sequence[Mapping[str, Any]]) -> Table:
    cells = [[say(row["selection"]), *(number(row[name]) for _, name in _EFFECT)] for row in rows]
    return grid("Before and after, and what each flag set aside", ["", *(name for name, _ in _EFFECT)], cells)


def _bursts(bursts: Sequence[Mapping[str, Any]]) -> Table:
    rows = [
        (
            say(burst["burst_id"]),
            say(burst["outcome"]),
            say(burst["user"], 40),
            number(burst["n_jobs"]),
            number(burst["span_days"]),
            percent(burst["share_of_span"], 0),
            number(burst["machine_weeks"]),
            percent(burst["alike_procs"], 0),
            number(burst["runtime_spread"]),
        )
        for burst in bursts
    ]
    header = ("burst", "", "user", "jobs", "days", "share", "machine-weeks", "same size", "runtime spread")
    return grid("Bursts", header, rows, texts=3)
