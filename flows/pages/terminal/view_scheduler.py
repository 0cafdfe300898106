"""What `walltime export`, `walltime guard` and `walltime limits` print."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from flows.pages.formats import fixed, percent, span
from flows.pages.terminal.blocks import JOBS, WEEK, Block, Column, Exact, Grid, text, wrote
from flows.services.exporting import Exported
from flows.services.guard import Round
from flows.services.quantities import clock, instant, memory_text
from pipeline.errors import printable

MOST_ROWS = 20


def view_exported(exported: Exported) -> Iterator[Block]:
    """What was written, from which run, and how to install it."""
    names = f", {exported.n_names:,} job names" if exported.n_names else ""
    yield f"Run {exported.run_id} of site {exported.site}: {exported.n_estimates:,} estimates{names}"
    if exported.install:
        done = "jobs are planned by their estimates" if exported.mode == "limit" else "no job changes"
        until_s = exported.newest_end_s + int(exported.max_age_days * 86_400)
        yield f"export.mode is {exported.mode}: {done}. The estimates are used until {instant(until_s)}."
    yield from (Exact(f"Wrote {path} ({n_bytes:,} bytes)") for path, n_bytes in exported.files.items())
    if exported.install:
        yield ""
        yield from map(Exact, exported.install.split("\n"))


def print_round(found: Round, now_s: float) -> None:
    """One line, a line a change, and what could not be known or done; for a log: lines are never wrapped."""
    n, done = len(found.changes) - len(found.refused), "would be changed" if found.is_dry_run else "changed"
    counts = f"{found.n_running:,} running, {found.n_ours:,} of them with a shorter limit; {found.n_waiting:,} waiting"
    lines = [f"{instant(int(now_s))} {counts}; {n:,} {done} in {found.took_s:.1f} s"]
    for one in found.changes:
        kind = "waits" if one.job.start_s is None else "runs"
        times = f"{span(one.job.planned_s or 0)} -> {span(one.to_s)} of {span(one.job.asked_s or 0)}"
        refused = f"; NOT CHANGED: {found.refused[one.job.job_id]}" if one.job.job_id in found.refused else ""
        lines.append(f"  {one.job.job_id} ({one.job.values.get('user')}, {kind}): {times}: {one.why}{refused}")
    lines += [f"  {count:,} left alone: {reason}" for reason, count in found.left.items()]
    lines += [f"  Note: {sentence}" for sentence in found.complaints]
    sys.stdout.writelines(printable(line, 2000) + "\n" for line in lines)
    sys.stdout.flush()


def print_failure(sentence: str, wait_s: float) -> None:
    """Print one sentence on stderr, with the time until the next round where there is one."""
    again = f" Trying again in {span(wait_s)}." if wait_s else ""
    sys.stderr.write(f"walltime: {printable(sentence, 2000)}{again}\n")
    sys.stderr.flush()


def _shorter(row: Mapping[str, Any]) -> str:
    one = next(iter(row["kinds"]), None)
    return f"{clock(one['recommended_s'])} for {clock(one['requested_s'])}" if one else ""


def view_limits(found: Mapping[str, Any], written: Mapping[str, Path]) -> Iterator[Block]:
    """How the advice did on later jobs, then the users or accounts with most unused hours."""
    if found["n_told"]:
        yield (
            f"{found['log']}: a request is recommended that about {found['chance']:.0%} of its kind's earlier jobs ran "
            f"longer than. In the log's later half {found['n_told']:,} of {found['n_jobs']:,} jobs would have been "
            f"told to request less, and {percent(found['share_longer'])} of these ran longer than that."
        )
    else:
        yield f"{found['log']}: no shorter request can be recommended: no kind has enough jobs that need less."
    columns = (
        text(found["by"], "name", limit=60),
        text("recommended request", _shorter),
        JOBS,
        Column("processor-hours requested", "requested_hours"),
        Column("unused", "unused_hours"),
        Column("told to request less", "n_told"),
        Column("ran longer", "n_longer"),
    )
    yield from _people(found, columns, written)


def _people(found: Mapping[str, Any], columns: Sequence[Column], written: Mapping[str, Path]) -> Iterator[Block]:
    """The first users or accounts, and the files that list all."""
    yield Grid("", columns, found["rows"][:MOST_ROWS])
    if len(found["rows"]) > MOST_ROWS:
        yield f"{len(found['rows']) - MOST_ROWS:,} more; --json or --out lists all of them."
    yield from wrote(written)


LIMIT_WEEKS = (
    WEEK,
    Column("jobs planned shorter", "n_planned"),
    Column("of them in a dry run", "n_dry_run"),
    Column("raised", "n_raised"),
    Column("extensions at least", "n_extensions"),
    Column("processor-hours planned earlier", "earlier_proc_hours", "{:,.0f}".format),
    Column("ended before their request", "n_ended"),
)
"""What became of jobs that were planned with shorter limits, by week."""


def view_limit_status(found: Mapping[str, Any]) -> Iterator[Block]:
    """Jobs that were planned shorter, how often limits were raised, and whether a job ended by one, by week."""
    now = found["config_mode"]
    changed = "" if now in (None, found["mode"]) else f", and the config now has {now}"
    yield f"The published run {found['run_id']} has export.mode {found['mode']}{changed}."
    if not found["weeks"]:
        yield "No job has ended that Walltime planned with a shorter limit."
        return
    yield Grid("Jobs planned with shorter limits", LIMIT_WEEKS, found["weeks"][:MOST_ROWS])
    n_ended = sum(row["n_ended"] for row in found["weeks"])
    do = " See whether the guard runs." if n_ended else ""
    yield f"{n_ended:,} jobs were ended at a limit below their requests.{do}"
    for one in found["left_alone"]:
        yield (
            f"Left alone from the next export on: {one['what']} of {one['user']}. Of its {one['n_planned']:,} planned "
            f"runs {one['n_early']:,} ended just before their first limits, as if they knew them."
        )


def view_memory_advice(found: Mapping[str, Any], written: Mapping[str, Path]) -> Iterator[Block]:
    """What the recommended memory would have done, then the users or accounts with most memory not used."""
    yield from _memory_promise(found, found["figures"], found["asked"])
    columns = (
        text(found["by"], "name", limit=60),
        text("ask for, per processor", _first_kind),
        JOBS,
        Column("GiB a job requested", "requested_gib", fixed),
        Column("used", "used_gib", fixed),
        Column("recommended", "recommended_gib", fixed),
        Column("within", "share_within", percent),
    )
    yield from _people(found, columns, written)


def _first_kind(row: Mapping[str, Any]) -> str:
    first = next(iter(row["kinds"]), None)
    if first is None:
        return ""
    instead = f" for {memory_text(first['requested_mem_kib'])}" if first["requested_mem_kib"] else ""
    return f"{memory_text(first['recommended_mem_kib'])}{instead}"


def _memory_promise(found: Mapping[str, Any], ours: Mapping[str, Any], asked: Mapping[str, Any]) -> Iterator[Block]:
    yield (
        f"{found['log']}: memory that {found['promise']:.1%} of all jobs shall stay under. Of the later "
        f"{ours['n_jobs']:,} jobs {percent(1.0 - ours['share_under'])} did; {percent(ours['over_allocation'], 0)} more "
        "was given than used."
    )
    if asked["n_jobs"]:
        yield (
            f"The requests themselves: {percent(1.0 - asked['share_under'])} of {asked['n_jobs']:,} jobs stayed under "
            f"theirs; {percent(asked['over_allocation'], 0)} more was requested than used."
        )
    if ours["worst_share"] is not None:
        yield (
            f"{percent(ours['worst_share'])} of the jobs of one submitter would have had too little, the most among "
            f"the {ours['n_submitters']:,} with at least {found['many_jobs']:,} jobs."
        )
