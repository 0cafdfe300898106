"""What `walltime show`, the commands on versions and `walltime rerun` print."""

import csv
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from flows.pages.terminal.activity import end_activity_line
from flows.pages.terminal.render import console, grid, number, pairs, plain_number, say
from flows.services.quantities import iso_time
from pipeline.errors import spreadsheet_text
from pipeline.publish import Manifest
from pipeline.schema import INSTANT_UNIT

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
    if found.get("reasons"):
        out.print(grid("", ("reason", "records"), [(say(name), number(n)) for name, n in found["reasons"].items()]))
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


def print_all_readable() -> None:
    """Say that a table of unreadable records is not there because there are none."""
    console().print("Every record could be read.")


def print_csv(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print rows as CSV; a text that begins as a formula does gets an apostrophe in front."""
    end_activity_line()
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([spreadsheet_text(cell) if isinstance(cell, str) else cell for cell in row] for row in rows)


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


_HEADER = ("version", "name", "made (UTC)", "site", "logs", "newest job (UTC)", "state", "MiB")
_LOGS_SHOWN = 2


def print_versions(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print the versions as a table."""
    cells = [
        (
            say(row["version"]), say(row["name"]), _minute(row["made"]), say(row["site"] or ""), _logs(row["logs"]),
            _minute(row["newest_job"]), _state(row), f"{row['bytes'] / 2**20:,.1f}",
        )
        for row in rows
    ]  # fmt: skip
    console().print(grid("Versions on disk", _HEADER, cells, texts=7))


def _minute(text: str | None) -> str:
    return say(text[:16]) if text else ""


def _logs(names: Sequence[str] | None) -> str:
    if names is None:
        return ""
    more = f" and {len(names) - _LOGS_SHOWN:,} more" if len(names) > _LOGS_SHOWN else ""
    return say(", ".join(names[:_LOGS_SHOWN])) + more


def _state(row: Mapping[str, Any]) -> str:
    words = [
        "published" if row["is_published"] else "",
        "withdrawn" if row["is_withdrawn"] else "",
        "never published" if not row["was_published"] else "",
        "pinned" if row["is_pinned"] else "",
    ]
    return ", ".join(word for word in words if word) or "earlier"


def print_published(manifest: Manifest) -> None:
    """Say which version is published now."""
    console().print(f"Version {_named(manifest.folder, manifest.name)} is published now.", soft_wrap=True)


def print_kept(manifest: Manifest, summary: Mapping[str, Any]) -> None:
    """Say what a rerun made, and what to do with it."""
    out = console()
    out.print(
        f"Version {_named(manifest.folder, manifest.name)} holds {summary['jobs']:,} jobs, {summary['groups']:,} "
        f"groups and {summary['predictions']:,} predictions, {summary['predictions_ok']:,} of them reliable.",
        soft_wrap=True,
    )
    out.print(
        f"It is not published. `walltime versions compare` scores it beside another version, and "
        f"`walltime versions promote {say(manifest.name)}` publishes it.",
        soft_wrap=True,
    )


def _named(folder: str, name: str) -> str:
    return f"{say(folder)} ({say(name)})" if name else say(folder)


def print_comparison(found: Mapping[str, Any]) -> None:
    """Print groups and fits of two versions beside one another, then their errors on later jobs."""
    out = console()
    names = [say(one["name"] or one["version"]) for one in found["versions"]]
    facts = [
        *(_line(key, [one[key] for one in found["versions"]]) for key in ("made", "newest_job", "template", "jobs")),
        _line("groups", found["groups"]["each"]),
    ]
    laws = sorted({law for one in found["fits"]["each"] for law in one})
    facts += [_line(f"fits: {law}", [sum(one.get(law, {}).values()) for one in found["fits"]["each"]]) for law in laws]
    out.print(grid("", ("", *names), facts))
    out.print(
        f"{found['groups']['in_both']:,} groups are in both; {found['fits']['other_law']:,} of "
        f"{found['fits']['in_both']:,} with a law in both have another one.",
        soft_wrap=True,
    )
    _print_later(out, names, found)


def _print_later(out: Any, names: Sequence[str], found: Mapping[str, Any]) -> None:
    where = f"submitted after {found['after']}, of version {say(found['jobs_from'])}"
    if not found["later_jobs"]:
        out.print(f"No version on disk has later jobs, {where}: compare again after the next run.", soft_wrap=True)
        return
    predictions, estimates = found["predictions"], found["estimates"]
    rows = [_line("later jobs with a prediction", [one["answered"] for one in predictions["each"]])]
    rows += _figures(predictions["each"], ("median_error", "in_80", "in_95", "width_80", "ok_share"), "predictions")
    rows += _figures(estimates["each"], ("mae_over_mean", "coverage_80", "coverage_q95"), "estimates")
    out.print(grid(f"{found['later_jobs']:,} later jobs, {where}", ("", *names), rows))
    out.print(
        f"Predictions are scored on the {predictions['in_both']:,} jobs that both versions answer, estimates on "
        f"{estimates['jobs']:,}.",
        soft_wrap=True,
    )
    if found["replay"] and found["replay"]["jobs"]:
        _print_replay(out, names, found["replay"])


def _print_replay(out: Any, names: Sequence[str], found: Mapping[str, Any]) -> None:
    """Print the slowdowns of both versions beside that of EASY with requests."""
    today, each = found["today"], found["each"]
    wanted = ("slowdown_mean", "wait_mean_s", "slowdown_change", "slowdown_change_q25", "slowdown_change_q75")
    rows = [(say(name), *(number(one.get(name)) for one in (today, *each))) for name in wanted]
    title = f"{found['jobs']:,} later jobs replayed on {found['capacity']:,} processors ({say(found['capacity_from'])})"
    out.print(grid(title, ("", "easy, request", *names), rows))
    out.print(
        f"Versions are replayed under {say(found['policy'])}; medians of {found['shakes']} replays with shaken "
        f"arrivals, changes from EASY with requests, with their quartiles.",
        soft_wrap=True,
    )
    if not found["has_waits"]:
        out.print("This log states no waits, so that its submits are really starts.", soft_wrap=True)


def _figures(each: Sequence[Mapping[str, Any]], wanted: Sequence[str], of: str) -> list[Sequence[str]]:
    return [_line(f"{of}: {name}", [one.get(name) for one in each]) for name in wanted if any(name in e for e in each)]


def _line(name: str, values: Sequence[Any]) -> Sequence[str]:
    return (say(name), *(number(value) for value in values))
