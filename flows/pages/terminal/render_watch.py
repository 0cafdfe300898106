"""What `walltime watch` prints: a line a round, a line a change, and one sentence for a round that failed."""

import sys

from flows.pages.terminal.render_query import span
from flows.services.quantities import instant
from flows.services.watch.watching import Round
from pipeline.core.text import printable


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
