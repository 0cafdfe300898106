"""What `walltime show` and the commands on versions print."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from flows.pages.formats import span
from flows.pages.terminal.blocks import JOBS, PROC_HOURS, Block, Column, Exact, Facts, Grid, Listing, side_by_side, text
from flows.services.quantities import iso_time
from pipeline.schema import INSTANT_UNIT

TABLES = (
    text("table", "name"),
    Column("rows"),
    Column("KiB", lambda table: table["bytes"] // 1024),
    text("contents", "meaning", limit=2_000),
)
COLUMNS = (
    text("column", lambda column: ("* " if column["is_key"] else "  ") + column["name"]),
    text("type"),
    text("unit"),
    text("meaning", limit=2_000),
)
_LOGS_SHOWN = 2


def _minute(instant: str | None) -> str:
    return instant[:16] if instant else ""


def _logs(names: Sequence[str] | None) -> str:
    shown = ", ".join((names or ())[:_LOGS_SHOWN])
    return f"{shown} and {len(names) - _LOGS_SHOWN:,} more" if names and len(names) > _LOGS_SHOWN else shown


def _state(version: Mapping[str, Any]) -> str:
    states = {
        "published": version["is_published"],
        "withdrawn": version["is_withdrawn"],
        "never published": not version["was_published"],
        "pinned": version["is_pinned"],
    }
    return ", ".join(word for word, holds in states.items() if holds) or "earlier"


VERSIONS = (
    text("version"),
    text("name"),
    text("made (UTC)", "made", form=_minute),
    text("site"),
    text("logs", form=_logs),
    text("newest job (UTC)", "newest_job", form=_minute),
    text("state", _state),
    Column("MiB", lambda version: f"{version['bytes'] / 2**20:,.1f}"),
)


def view_manifest(facts: Mapping[str, Any]) -> Iterator[Block]:
    """The facts of the run and its tables."""
    named = {name: facts[name] for name in ("run_id", "version", "site", "created", "newest_end", "code")}
    previous = ", ".join(entry["folder"] for entry in facts["previous"]) or "none"
    logs = ", ".join(log["name"] for log in facts["logs"])
    yield Facts("Published", named | {"logs": logs, "previous versions": previous})
    yield Grid("", TABLES, [{"name": name, **table} for name, table in facts["tables"].items()])
    longest = max(map(len, facts["tables"]), default=0)
    yield from (Exact(f"{name:<{longest}} {table['path']}") for name, table in facts["tables"].items())


def view_rows(found: Mapping[str, Any], times: frozenset[str]) -> Iterator[Block]:
    """Rows of a table; the columns of `times` hold seconds since 1970 and are shown as UTC."""
    if found.get("reasons"):
        yield Grid("", (text("reason", 0), Column("records", 1)), found["reasons"].items())
    shown = [
        {name: iso_time(value) if name in times and value is not None else value for name, value in row.items()}
        for row in found["shown"]
    ]
    yield Listing(f"{found['table']}: {len(shown):,} of {found['matching']:,} rows", shown)


def view_columns(tables: Mapping[str, Mapping[str, Any]]) -> Iterator[Block]:
    """The columns of some tables with type, unit and meaning; * marks columns of the key."""
    for name, table in tables.items():
        yield Grid(f"{name}: {table['meaning']}", COLUMNS, table["columns"])
    if any(column["unit"] == INSTANT_UNIT for table in tables.values() for column in table["columns"]):
        yield "Times are numbers in the files; `walltime show` prints them as UTC, and with --epoch as numbers."


YOUR_JOBS = (
    text("application", form=lambda name: name or "unknown"),
    text("queue"),
    Column("processors", "procs"),
    *(JOBS, PROC_HOURS),
    Column("requested", "requested_s", span),
    Column("half took less", "runtime_s_median", span),
    Column("reached the request", "n_at_limit"),
    Column("next: expected", "expected_s", span),
    Column("next: ask for", "ask_s", span),
)


def view_user_jobs(facts: Mapping[str, Any]) -> Iterator[Block]:
    """The kinds of jobs of one user, with the time to ask for."""
    yield Grid(f"Jobs of {facts['user']} at {facts['site']}, most processor-hours first", YOUR_JOBS, facts["kinds"])
    yield "95% of the next such jobs should end within the time to ask for. `walltime query` answers for any other job."


def view_comparison(found: Mapping[str, Any]) -> Iterator[Block]:
    """Groups and fits of two versions beside one another, then their errors on later jobs."""
    names = [one["name"] or one["version"] for one in found["versions"]]
    fits, groups = found["fits"], found["groups"]
    rows = [(key, *(one[key] for one in found["versions"])) for key in ("made", "newest_job", "template", "jobs")]
    rows += [("groups", *groups["each"])]
    laws = sorted({law for one in fits["each"] for law in one})
    rows += [(f"fits: {law}", *(sum(one.get(law, {}).values()) for one in fits["each"])) for law in laws]
    yield side_by_side("", names, rows)
    yield (
        f"{groups['in_both']:,} groups are in both; {fits['other_law']:,} of {fits['in_both']:,} with a law in both "
        "have another one."
    )
    where = f"submitted after {found['after']}, of version {found['jobs_from']}"
    if not found["later_jobs"]:
        yield f"No version on disk has later jobs, {where}: compare again after the next run."
        return
    yield from _later_jobs(names, found, where)
    if found["replay"] and found["replay"]["jobs"]:
        yield from _replayed(names, found["replay"])
    if found["estimates"]["change"]:
        yield _verdict(names, found["estimates"]["change"])


def _later_jobs(names: Sequence[str], found: Mapping[str, Any], where: str) -> Iterator[Block]:
    predictions, estimates = found["predictions"], found["estimates"]
    rows = [("later jobs with a prediction", *(one["answered"] for one in predictions["each"]))]
    rows += _figures(predictions["each"], ("median_error", "in_80", "in_95", "width_80", "ok_share"), "predictions")
    rows += _figures(estimates["each"], ("mae_over_mean", "coverage_80", "coverage_q95"), "estimates")
    yield side_by_side(f"{found['later_jobs']:,} later jobs, {where}", names, rows)
    yield (
        f"Predictions are scored on the {predictions['in_both']:,} jobs that both versions answer, estimates on "
        f"{estimates['jobs']:,}."
    )


def _verdict(names: Sequence[str], found: Mapping[str, Any]) -> str:
    """Whether the second version's estimates are better, with the uncertainty."""
    if found["verdict"] is None:
        return f"Verdict: {found['user_days']:,} user-days with later jobs are too few to tell."
    word = found["verdict"]
    is_none = word == "no difference"
    said = f"{word} between {names[0]} and {names[1]}" if is_none else f"{names[1]} is {word} than {names[0]}"
    return (
        f"Verdict: {said}. The mean absolute "
        f"error changes by {found['change']:+.1%} (95% interval {found['lo95']:+.1%} to {found['hi95']:+.1%}; "
        f"bootstrap over {found['user_days']:,} user-days, {found['resamples']:,} samples, seed {found['seed']})."
    )


def _figures(each: Sequence[Mapping[str, Any]], wanted: Sequence[str], of: str) -> list[tuple[Any, ...]]:
    known = [name for name in wanted if any(name in one for one in each)]
    return [(f"{of}: {name}", *(one.get(name) for one in each)) for name in known]


def _replayed(names: Sequence[str], found: Mapping[str, Any]) -> Iterator[Block]:
    """The slowdowns of both versions beside that of EASY with requests."""
    wanted = ("slowdown_mean", "wait_mean_s", "slowdown_change", "slowdown_change_q25", "slowdown_change_q75")
    rows = [(name, *(one.get(name) for one in (found["today"], *found["each"]))) for name in wanted]
    title = f"{found['jobs']:,} later jobs replayed on {found['capacity']:,} processors ({found['capacity_from']})"
    yield side_by_side(title, ("easy, request", *names), rows)
    yield (
        f"Versions are replayed under {found['policy']}; medians of {found['shakes']} replays with shaken arrivals, "
        "changes from EASY with requests, with their quartiles."
    )
    if not found["has_waits"]:
        yield "This log states no waits, so that its submits are really starts."
