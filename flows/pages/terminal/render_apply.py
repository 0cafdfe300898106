"""What `walltime apply` prints."""

from flows.pages.terminal.render import console, grid, say
from flows.pages.terminal.render_query import span
from flows.services.quantities import instant
from flows.services.schedulers.applying import Applied


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
