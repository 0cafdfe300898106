"""What `walltime export`, `walltime apply` and `walltime limits` print."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flows.pages.terminal.render import console, grid, number, percent, say, span
from flows.services.applying import Applied
from flows.services.exporting import Exported
from flows.services.quantities import clock, instant
from flows.services.watching import Round
from pipeline.errors import printable


def print_exported(exported: Exported) -> None:
    """Print what was written, from which run, and how to install it."""
    out = console()
    names = f", {exported.n_names:,} job names" if exported.n_names else ""
    out.print(f"Run {exported.run_id} of site {say(exported.site)}: {exported.n_estimates:,} estimates{names}")
    for path, n_bytes in exported.files.items():
        out.print(f"Wrote {say(path, 1000)} ({n_bytes:,} bytes)", soft_wrap=True)
    if exported.install:
        out.print(f"\n{exported.install}", soft_wrap=True, markup=False, highlight=False)


def print_applied(applied: Applied) -> None:
    """Print each change with from, to and why, the jobs left alone by reason, and the changes that were refused."""
    out = console()
    if applied.changes:
        head = ("job", "user", "why", "asked for", "from", "to")
        out.print(grid(f"{applied.scheduler.what} of pending jobs", head, _rows(applied), texts=3))
    done, n = "would change" if applied.is_dry_run else "changed", len(applied.changes) - len(applied.failures)
    known = f"from the State of {instant(applied.as_of_s)}"
    out.print(say(f"{applied.n_pending:,} pending jobs: {n:,} {done}, {known}.", 300))
    for reason, count in applied.left.items():
        out.print(say(f"{count:,} left alone: {reason}."))
    for job_id, sentence in applied.failures.items():
        out.print(say(f"Refused: job {job_id}: {sentence}.", 600))
    if applied.is_dry_run and applied.changes:
        out.print("Nothing was changed; --yes makes the changes.")


def _rows(applied: Applied) -> list[tuple[str, ...]]:
    return [
        (
            say(change.job.job_id), say(str(change.job.values.get("user") or "?")), say(change.why),
            *(say(span(time_s)) for time_s in (change.job.asked_s or 0, change.job.planned_s or 0, change.to_s)),
        )
        for change in applied.changes
    ]  # fmt: skip


def print_round(found: Round, now_s: int) -> None:
    """Print plain lines, for a log: they are never wrapped."""
    applied = found.applied
    n = len(applied.changes) - len(applied.failures) if applied else 0
    done = "would change" if applied and applied.is_dry_run else "changed"
    said = f"{found.n_new} new jobs, {found.n_open} brought up to date; {applied.n_pending if applied else 0} pending"
    _line(f"{instant(now_s)} round {found.number}: {said}, {n} {done}; known until {instant(found.as_of_s)}")
    for change in applied.changes if applied else ():
        user, what = change.job.values.get("user"), applied.scheduler.what if applied else ""
        times = f"{span(change.job.planned_s)} -> {span(change.to_s)}"
        refused = applied.failures.get(change.job.job_id) if applied else None
        end = f"; refused: {refused}" if refused else ""
        _line(f"  {change.job.job_id} ({user}): {what} {times}: {change.why}{end}")
    sys.stdout.flush()


def print_failure(found: Round, wait_s: float) -> None:
    """Print one sentence on stderr, with the time until the next round where there is one."""
    again = f" Trying again in {span(wait_s)}." if wait_s else ""
    sys.stderr.write(f"walltime: {printable(found.failure, 2000)}{again}\n")
    sys.stderr.flush()


def _line(text: str) -> None:
    sys.stdout.write(printable(text, 2000) + "\n")


MOST_ROWS = 20


def print_limits(found: Mapping[str, Any], written: Mapping[str, Path]) -> None:
    """Print the promise and whether it was kept, then the users or accounts with most unused hours."""
    out, figures = console(), found["figures"]
    for line in _sentences(found, figures):
        out.print(line, soft_wrap=True)
    header = (found["by"], "recommended limit", "jobs", "processor-hours requested", "unused", "removed", "within")
    out.print(grid("", header, (_limit_cells(row) for row in found["rows"][:MOST_ROWS]), texts=2))
    if len(found["rows"]) > MOST_ROWS:
        out.print(f"{len(found['rows']) - MOST_ROWS:,} more; --json or --out lists all of them.", soft_wrap=True)
    for name, path in written.items():
        out.print(f"Wrote {name} to {say(path, 1000)}", soft_wrap=True)


def _sentences(found: Mapping[str, Any], figures: Mapping[str, Any]) -> list[str]:
    """What the limits would have done, and how the submitters with many jobs fared."""
    within, removed, lost = (percent(share) for share in (
        1.0 - figures["share_beyond"], figures["removed_share"], figures["lost_share"]
    ))  # fmt: skip
    said = [
        f"{say(found['log'])}: limits within which {found['promise']:.1%} of all jobs shall end. Of the later "
        f"{figures['n_jobs']:,} jobs {within} did.",
        f"The limits would have removed {removed} of the over-requested processor-hours; jobs beyond them would have "
        f"lost {lost} of the used ones.",
    ]
    if figures["worst_share"] is not None:
        said.append(
            f"{percent(figures['worst_share'])} of the jobs of one submitter were beyond, the most among the "
            f"{figures['n_submitters']:,} with at least {found['many_jobs']:,} jobs; the bound is "
            f"{percent(found['bound'])}."
        )
    return said


def _limit_cells(row: Mapping[str, Any]) -> list[str]:
    first = next(iter(row["limits"]), None)
    said = f"{clock(first['limit_s'])} for {clock(first['requested_s'])}" if first else ""
    hours = [number(row[f"{name}_hours"]) for name in ("requested", "unused", "removed")]
    return [say(row["name"], 60), said, number(row["n_jobs"]), *hours, percent(row["share_within"])]


def print_limit_scores(found: Mapping[str, Any]) -> None:
    """Print the figures of every rule side by side."""
    header = (
        "rule", "jobs", "beyond", "over-requested hours removed", "used hours lost",
        f"submitters with {found['many_jobs']}+ jobs", "worst of them",
    )  # fmt: skip
    rows = [
        [say(name), number(one["n_jobs"]),
         *(percent(one[key]) for key in ("share_beyond", "removed_share", "lost_share")),
         number(one["n_submitters"]), percent(one["worst_share"])]
        for name, one in found["rules"].items()
    ]  # fmt: skip
    console().print(grid(f"{say(found['log'])}, later half, promise {found['promise']:.1%}", header, rows))
