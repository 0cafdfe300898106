"""What `walltime clean` prints."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from flows.pages.terminal.json_out import print_json
from flows.pages.terminal.render import console, grid, number, pairs, report_table, say
from flows.services.logs.cleaning import Cleaned

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


def print_cleaned_json(cleaned: Cleaned, written: Mapping[str, Path]) -> None:
    """Print the report, the bursts in order, and the effect of the flags."""
    print_json(
        {
            "report": cleaned.report.as_dict(),
            "bursts": cleaned.burst_rows(),
            "effect": cleaned.effect.to_pylist(),
            "written": {name: str(path) for name, path in written.items()},
        }
    )


def print_cleaned(cleaned: Cleaned, written: Mapping[str, Path], *, is_whole: bool) -> None:
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
            _percent(burst["share_of_span"]),
            number(burst["machine_weeks"]),
            _percent(burst["alike_procs"]),
            number(burst["runtime_spread"]),
        )
        for burst in bursts
    ]
    header = ("burst", "", "user", "jobs", "days", "share", "machine-weeks", "same size", "runtime spread")
    return grid("Bursts", header, rows, texts=3)


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.0%}"
