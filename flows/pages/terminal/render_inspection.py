"""What `walltime inspect` prints."""

from typing import Any

from flows.pages.terminal.render import console, grid, pairs, plain_number, say
from flows.services.quantities import iso_time

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
