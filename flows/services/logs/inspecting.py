"""An inspected log as plain values, and printed."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from flows.pages.terminal.render import console, grid, pairs, plain_number, say
from pipeline.ingest.inspect import CUT_BY_BOUND, Inspection

_FIRST = ("job_id", "user", "application", "submit_s", "start_s", "procs", "runtime_s", "requested_s", "state")
_UNREADABLE_SHOWN = 5


def as_dict(seen: Inspection, n_rows: int) -> dict[str, Any]:
    """Plain values for JSON; of the jobs and the unreadable lines the first few."""
    reasons = Counter(seen.unreadable.column("reason").to_pylist())
    # Where the beginning was read only, the record it ends in is not the log's fault.
    hidden = {*reasons, *(() if seen.is_whole else CUT_BY_BOUND)}
    set_aside = {name: tally.rows for name, tally in seen.report.set_aside.items()} if seen.report else {}
    return {
        "log": seen.label,
        "format": seen.format,
        "compression": seen.compression,
        "read": "all" if seen.is_whole else "the beginning",
        "timezone": seen.timezone,
        "error": seen.error,
        "log_columns": list(seen.layout.found),
        "log_columns_missing": list(seen.layout.missing),
        "log_columns_ignored": list(seen.layout.ignored),
        "columns": seen.filled,
        "columns_empty": seen.empty if seen.format else [],
        "lines": seen.report.seen.rows if seen.report else 0,
        "n_jobs": seen.jobs.num_rows,
        "set_aside": {name: n for name, n in set_aside.items() if n and name not in hidden},
        "quarantined": dict(sorted(reasons.items())),
        "notes": [*seen.layout.said, *(seen.report.notes if seen.report else ())],
        "jobs": seen.jobs.slice(0, n_rows).to_pylist(),
        "unreadable": seen.unreadable.slice(0, _UNREADABLE_SHOWN).to_pylist(),
    }


def all_unknown(found: Sequence[dict[str, Any]]) -> bool:
    """Whether no log among them can be read."""
    return all(seen["error"] for seen in found)


def print_inspection(seen: dict[str, Any]) -> None:
    """One log's findings; every text of it escaped."""
    out = console()
    facts = {
        "format": seen["format"] or "unknown",
        **{name: seen[name] for name in ("compression", "read", "timezone")},
    }
    facts |= {"lines": seen["lines"], "jobs": seen["n_jobs"]}
    facts |= {f"would be set aside: {name}": n for name, n in seen["set_aside"].items()}
    facts |= {f"would be quarantined: {name}": n for name, n in seen["quarantined"].items()}
    for name, shown in (
        ("log_columns", "columns read"), ("log_columns_missing", "columns of use that the log lacks"),
        ("log_columns_ignored", "columns without use"), ("columns_empty", "JOBS columns left empty"),
    ):  # fmt: skip
        facts |= {shown: ", ".join(seen[name])} if seen[name] else {}
    # A list of columns is longer than what `pairs` shows of a text.
    wide = {name: value for name, value in facts.items() if isinstance(value, str) and len(value) > 150}
    out.print(pairs(say(seen["log"], 1000), {name: value for name, value in facts.items() if name not in wide}))
    for name, value in wide.items():
        out.print(f"{name}: {say(value, 4000)}")
    if seen["jobs"]:
        columns = [name for name in _FIRST if name in seen["columns"]]
        out.print(grid("", columns, [[plain_number(job[c]) for c in columns] for job in seen["jobs"]], texts=3))
    for note in [*([seen["error"]] if seen["error"] else []), *seen["notes"]]:
        out.print(f"Note: {say(note, 500)}")
