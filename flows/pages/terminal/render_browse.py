"""What `walltime show` and `walltime columns` print."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from flows.pages.terminal.render import console, grid, number, pairs, plain_number, say
from flows.services.quantities import iso_time
from pipeline.core.column import INSTANT_UNIT

_WIDE = 160
_WHOLE = 100_000
_MEANING_CHARS = 2_000
"""Limit for the text of a meaning, longer than all of them."""


def print_manifest(facts: Mapping[str, Any]) -> None:
    """Print the facts of the run and its tables."""
    out = console()
    logs = ", ".join(log["name"] for log in facts["logs"])
    previous = ", ".join(entry["folder"] for entry in facts["previous"]) or "none"
    named = {name: facts[name] for name in ("run_id", "version", "site", "created", "newest_end", "code")}
    out.print(pairs("Published", named | {"logs": logs, "previous versions": previous}))
    rows = [
        (say(name), number(one["rows"]), number(one["bytes"] // 1024), say(one["meaning"], _MEANING_CHARS))
        for name, one in facts["tables"].items()
    ]
    table = grid("", ("table", "rows", "KiB", "contents"), rows)
    table.columns[3].justify, table.columns[3].overflow = "left", "fold"
    out.print(table)
    longest = max(map(len, facts["tables"]), default=0)
    for name, one in facts["tables"].items():
        out.print(f"{say(name):<{longest}} {say(one['path'], 1000)}", soft_wrap=True)


def print_rows(found: Mapping[str, Any], times: Collection[str] = ()) -> None:
    """Print the rows as a table if it fits the terminal, else each row as a list of its known values.

    The columns of `times` hold seconds since 1970 and are printed as UTC.
    """
    out = console()
    shown = [_with_times(row, times) for row in found["shown"]]
    names = [name for name in shown[0] if any(row[name] is not None for row in shown)] if shown else []
    title = f"{say(found['table'])}: {len(shown):,} of {found['matching']:,} rows"
    cells = [[plain_number(row[name], 60 if out.is_terminal else _WHOLE) for name in names] for row in shown]
    widths = [max([len(name), *(len(row[place]) for row in cells)]) + 2 for place, name in enumerate(names)]
    if cells and sum(widths) <= min(out.width, _WIDE):
        out.print(grid(title, names, cells, texts=0))
        return
    out.print(f"[bold]{title}[/bold]")
    for row in shown:
        out.print()
        out.print(_listed(names, [plain_number(row[name], _WHOLE) for name in names]))


def _with_times(row: Mapping[str, Any], times: Collection[str]) -> dict[str, Any]:
    return {name: iso_time(value) if name in times and value is not None else value for name, value in row.items()}


def _listed(names: Sequence[str], row: Sequence[str]) -> Any:
    table = pairs("", {})
    for name, cell in zip(names, row, strict=True):
        if cell:
            table.add_row(say(name), cell)
    return table


def print_columns(tables: Mapping[str, Mapping[str, Any]]) -> None:
    """Print the columns of some tables with type, unit and meaning; * marks columns of the key."""
    out = console()
    for name, one in tables.items():
        rows = [
            (
                ("* " if column["is_key"] else "  ") + say(column["name"]),
                column["type"],
                column["unit"] or "",
                column["meaning"],
            )
            for column in one["columns"]
        ]
        cells = [(first, *(say(text, _MEANING_CHARS) for text in rest)) for first, *rest in rows]
        title = f"{say(name)}: {say(one['meaning'], _MEANING_CHARS)}"
        out.print(grid(title, ("column", "type", "unit", "meaning"), cells, texts=4))
    if any(column["unit"] == INSTANT_UNIT for one in tables.values() for column in one["columns"]):
        out.print("Times are numbers in the files; `walltime show` prints them as UTC, and with --epoch as numbers.")
