"""What `walltime when` prints."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from flows.pages.formats import percent, span
from flows.pages.terminal.blocks import Block, Column, Grid, Lead, text
from flows.services.quantities import instant

ANSWERED = {
    "simulation": "past jobs that waited in a similar queue, with the queue simulated",
    "similar": "past jobs that waited in a similar queue",
    "draws": "the simulated queue alone: no past says how well it holds",
}
"""What answered, in words."""


def _until(name: str) -> Column:
    def until(row: Mapping[str, Any]) -> float | None:
        value = row[name]
        return None if value is None else max(value - row["at_s"], 0.0)

    return Column({"q50": "starts in", "q80": "80% by", "q95": "95% by"}[name[-3:]], until, _span)


def _span(seconds: float | None) -> str:
    return "" if seconds is None else span(seconds)


JOB = (
    text("job", "id", limit=30), text("user", "job_owner", limit=20), text("queue", "queue_name", limit=20),
    Column("procs"), Column("limit", "wallclock_limit", _span),
)  # fmt: skip
WAITING = (*JOB, _until("start_s_q50"), _until("start_s_q80"), _until("start_s_q95"))
RUNNING = (
    *JOB, Column("has run", "wallclock_time", _span), Column("left", "left_s_q50", _span),
    Column("80%", "left_s_q80", _span), Column("95%", "left_s_q95", _span),
)  # fmt: skip
HELD = (*JOB, text("why no start is expected", "note"))

CHOICES = (
    Column("procs"), Column("request", "requested_s", _span), Column("starts in", "wait_s_q50", span),
    Column("80% by", "wait_s_q80", span), Column("runs for", "runtime_s_q50", span),
    Column("ends in", lambda row: row["wait_s_q50"] + row["runtime_s_q50"], span),
)  # fmt: skip


def view_when(found: Mapping[str, Any]) -> Iterator[Block]:
    """The jobs that wait, run and are held, and what the answers rest on."""
    rows = [row | {"at_s": found["at_s"]} for row in found["jobs"]]
    kinds = {"queued": ("Waiting", WAITING), "running": ("Running: time left", RUNNING), "queued_held": ("Held", HELD)}
    for status, (title, columns) in kinds.items():
        own = [row for row in rows if row["status"] == status]
        if own:
            yield Grid(title, columns, sorted(own, key=lambda row: row["dispatch_time"] or 0.0))
    if not rows:
        yield "No job waits or runs."
    yield from _basis(found, {row["answered_by"] for row in rows})


def view_hypothetical(found: Mapping[str, Any]) -> Iterator[Block]:
    """The expected start and end of a job, and what another request or size would change."""
    rows = found["choices"]
    own, others = rows[0], rows[1:]
    yield Lead(
        f"In {span(own['wait_s_q50'])}",
        f" the job is expected to start (median); by {span(own['wait_s_q80'])} with 80%, "
        f"by {span(own['wait_s_q95'])} with 95%.",
    )
    for row in others:
        if row["procs"] == own["procs"] and _gain(own, row, "50") > 60:
            yield _sooner(own, row)
    sizes = sorted([own, *(row for row in others if row["procs"] != own["procs"])], key=lambda row: row["procs"])
    if len(sizes) > 1:
        best = min(sizes, key=lambda row: row["end_s_q50"])
        yield f"It is expected to end first on {best['procs']:,} processors."
        yield Grid("", CHOICES, sizes)
    if not found["has_curve"]:
        yield ("Other numbers of processors are not compared: no curve is published for this --user and --application.")
    yield from _basis(found, {row["answered_by"] for row in rows})


def _sooner(own: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    gains = sorted(max(_gain(own, row, level), 0.0) for level in ("10", "50", "80", "95"))
    return (
        f"If it asked for {span(row['requested_s'])} instead of {span(own['requested_s'])} it would start "
        f"{span(_gain(own, row, '50'))} earlier ({span(gains[0])} to {span(gains[-1])}); "
        f"{percent(row['share_longer'], 0)} of such jobs run longer than that."
    )


def _gain(own: Mapping[str, Any], row: Mapping[str, Any], level: str) -> float:
    return float(own[f"wait_s_q{level}"] - row[f"wait_s_q{level}"])


def _basis(found: Mapping[str, Any], ways: set[str | None]) -> Iterator[str]:
    named: Sequence[str] = [ANSWERED[way] for way in ANSWERED if way in ways]
    if named:
        yield f"Starts were answered by {'; or by '.join(named)}."
    if record := found["record"]:
        yield (
            f"Of {record['n_scored']:,} such questions of the last 90 days {percent(record['held_q80'])} of the starts "
            f"came by the 80% time and {percent(record['held_q95'])} by the 95% time, before calibration; the median "
            f"error was {span(record['median_error_s'])}."
        )
    yield (
        f"At {instant(int(found['at_s']))} {found['n_running']:,} jobs ran and {found['n_waiting']:,} waited on "
        f"{found['processors']:,.0f} processors; the log is known until {instant(found['as_of_s'])}."
    )
