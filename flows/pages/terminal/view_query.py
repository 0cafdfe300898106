"""What `walltime query` and `walltime when` print."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from flows.pages.formats import any_value, number, percent, span, span_if_known
from flows.pages.terminal.blocks import Block, Column, Grid, Lead, text
from flows.services.quantities import LATER, instant, memory_text
from pipeline.axes import UNTOLD, Axis, counted

SUBMITTERS = ("user", "account", "user_group")
PERCENT = (10, 50, 80, 90, 95, 99)
QUANTILES = (
    text("jobs done by then", "percent", form="{}%".format),
    Column("s", "runtime_s"),
    Column("", "runtime_s", span),
    Column("past jobs below it", "held", percent),
)


def view_answer(found: Mapping[str, Any]) -> Iterator[Block]:
    """The estimate, its quantiles, the past jobs they rest on, and the errors on this log."""
    yield Lead(span(found["runtime_s"]), " is the expected runtime of such a job (median).")
    rows = [{"percent": q, "runtime_s": found[f"runtime_s_q{q}"], "held": found[f"held_q{q}"]} for q in PERCENT]
    yield Grid("", QUANTILES[:3] if found["answered_by"] == "predictions" else QUANTILES, rows)
    yield from explanation(found)
    yield from _limit(found)


def _limit(found: Mapping[str, Any]) -> Iterator[str]:
    """What the scheduler's plug-in would set, or why the request stands."""
    limit = found["limit"]
    why, mode = limit["why_none"], limit["mode"]
    shorter = ""
    if limit["planned_s"]:
        request = span(found["job"].get("requested_s"))
        shorter = f"{span(limit['planned_s'])}, raised while the job runs up to its {request}"
    if why is None:
        yield f"Planned with {shorter}."
        return
    reasons = {
        "no_request": "the job has none of its own",
        "opted_out": "its user, account or queue has opted out",
        "no_gain": "the estimate is not far enough below it",
        mode: f'export.mode is {mode}; under "limit" the job would be planned with {shorter}',
    }
    yield f"Planned with its request: {reasons[why]}."


def view_batch(rows: Sequence[Mapping[str, Any]], facts: Mapping[str, Any], described: str) -> Iterator[Block]:
    """The answers to a batch as a table, a description of the batch, and the errors on this log."""
    columns = [
        Column(name, form=any_value, is_text=not name.startswith(("runtime_s", "n_", "is_known")), limit=60)
        for name in (rows[0] if rows else ())
    ]
    yield Grid("", columns, rows)
    yield f"{described}. {accuracy(facts)}"


def explanation(found: Mapping[str, Any]) -> Iterator[str]:
    """Sentences on the past jobs that the answer rests on, and on the errors on this log."""
    if found["is_usual_procs"]:
        yield f"--procs is not given: the answer is for {found['procs']:,}, as the newest similar job had."
    if found["gpus"]:
        of_type = "" if found["gpu_type"] == UNTOLD else f" of type {found['gpu_type']}"
        yield f"The job holds {counted(found['gpus'], Axis.GPUS)}{of_type}. Only jobs on the same GPUs are compared."
    if found["unknown_names"]:
        yield f"The log does not know {', '.join(found['unknown_names'])}: jobs with other values answer."
    if memory_kib := found["job"].get("requested_mem_kib"):
        size = f"{number(memory_kib / 1024)} MiB per processor"
        yield f"The requested memory is {size}. Only jobs with the same memory are compared."
    if found["answered_by"] == "inputs":
        model = "A model over the inputs that the job's texts name answered"
        yield f"{model}; the sentences below are of the method walltime."
    if found["answered_by"] == "predictions":
        has_submitter = any(found["job"].get(name) for name in SUBMITTERS)
        missing = "No request is" if has_submitter else "No user and no request are"
        yield f"{missing} given: this is the published prediction of the group {found['group']}."
        yield from filter(None, [found["advice"]])
    else:
        yield from _of_the_estimate(found)
    when = f"{span(found['age_s'])} before the submit" if found["age_s"] else "the assumed submit time"
    when = "some time in the days before the submit" if found["job"].get("at") == LATER else when
    yield f"The known log ends at {instant(found['as_of_s'])}, {when}."
    if requested_s := found["job"].get("requested_s"):
        yield _of_the_request(found, requested_s)
    if "recommended_mem_kib" in found:
        yield _of_memory(found)
    yield from found["notes"]


def _of_the_estimate(found: Mapping[str, Any]) -> Iterator[str]:
    if found["scaled_from"] is not None:
        yield (
            f"The group {found['group']} never ran on this count: the estimate is that for {found['scaled_from']:,}, "
            "times the ratio of the group's published predictions."
        )
    yield _basis(found)
    if found["is_unusual_request"]:
        yield _unusual(found)
    yield accuracy(found)


def _of_the_request(found: Mapping[str, Any], requested_s: float) -> str:
    """How much of the request is enough, or how many jobs would be stopped at it."""
    reached = next((q for q in (10, 50, 80, 90, 95) if found[_quantile(q)] >= requested_s), None)
    if reached is None:
        share = found["runtime_s_q95"] / requested_s
        return f"95% of such jobs need at most {share:.0%} of the requested {span(requested_s)}."
    return f"At least {100 - reached}% of such jobs would reach the requested {span(requested_s)} and be stopped."


def _of_memory(found: Mapping[str, Any]) -> str:
    """What memory to ask for, per node where that is known, what share of such jobs stay under it, and the promise."""
    promised, asked = found["recommended_mem_kib"], found["job"].get("requested_mem_kib")
    request = f"; the request is {_amounts(found, asked)}" if asked else ""
    return (
        f"Memory: ask for {_amounts(found, promised)}{request}. {found['recommended_share']:.1%} of such jobs stay "
        f"under it, and {found['memory_promise']:.0%} of all jobs stay within the memory recommended for them."
    )


def _amounts(found: Mapping[str, Any], per_processor_kib: float) -> str:
    """An amount per processor also per node, where these are known, and for the whole job."""
    whole_kib, nodes = per_processor_kib * found["procs"], found["memory_nodes"]
    per_node = f"{memory_text(whole_kib / nodes)} per node, " if nodes else ""
    return f"{per_node}{memory_text(whole_kib)} in all ({memory_text(per_processor_kib)} per processor)"


def _quantile(percent: int) -> str:
    return "runtime_s" if percent == 50 else f"runtime_s_q{percent}"


def accuracy(facts: Mapping[str, Any]) -> str:
    """A sentence on the errors and coverage of the method on this log."""
    return (
        f"On this log the method {facts['method']} has a mean absolute error of {facts['mae_over_mean']:.0%} of the "
        f"mean runtime, and its q95 held {facts['held_q95']:.1%}, of the last {facts['n_scored']:,} jobs that ended."
    )


def _basis(found: Mapping[str, Any]) -> str:
    # Without a request no job has the same one in most logs, and the two counts would be 0 for that reason alone.
    is_compared = bool(found["job"].get("requested_s"))
    everybody = f"{_jobs(found['n_everybody'])} of all submitters with the same application and requested time"
    among = f", among them {everybody}" if is_compared else ""
    column = next((name for name in SUBMITTERS if found["job"].get(name)), None)
    who = f"{column} {found['job'][column]}" if column else ""
    if not column:
        return f"No submitter is given: the answer rests on the jobs of all submitters{among}."
    if not found["is_known"]:
        return f"The log does not know {who}: the answer rests on the jobs of all submitters{among}."
    of_kind = "with the same application, memory and processors" if found["job"].get("application") else ""
    own = f", {found['n_kind']:,} of these {of_kind}" if of_kind else ""
    rest = f"{',' if own else ''} and on {everybody}" if is_compared else ""
    return f"It rests on {_jobs(found['n_submitter'])} of {who} that ended{own}{rest}."


def _unusual(found: Mapping[str, Any]) -> str:
    """A warning: the submitter has never requested a time near this one."""
    least, most = span(found["least_requested_s"]), span(found["most_requested_s"])
    requested = least if least == most else f"{least} to {most}"
    # On first thirds 80% intervals of such longer requests held 54 to 74%, of shorter ones 77 to 83%.
    doubt = (
        "the answer assumes a longer runtime, and its intervals hold fewer jobs than stated"
        if (found["job"]["requested_s"] > found["most_requested_s"])
        else "the answer assumes no longer runtime"
    )
    return (
        f"This request is unusual: none of the submitter's {_jobs(found['n_remembered'])} compared requested half to "
        f"twice as much. They requested {requested} and took {span(found['usual_runtime_s'])} in the median; {doubt}."
    )


def _jobs(count: int) -> str:
    return f"{count:,} job{'' if count == 1 else 's'}"


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

    return Column({"q50": "starts in", "q80": "80% by", "q95": "95% by"}[name[-3:]], until, span_if_known)


JOB = (
    text("job", "id", limit=30), text("user", "job_owner", limit=20), text("queue", "queue_name", limit=20),
    Column("procs"), Column("limit", "wallclock_limit", span_if_known),
)  # fmt: skip
WAITING = (*JOB, _until("start_s_q50"), _until("start_s_q80"), _until("start_s_q95"))
RUNNING = (
    *JOB, Column("has run", "wallclock_time", span_if_known), Column("left", "left_s_q50", span_if_known),
    Column("80%", "left_s_q80", span_if_known), Column("95%", "left_s_q95", span_if_known),
)  # fmt: skip
HELD = (*JOB, text("why no start is expected", "note"))

CHOICES = (
    Column("procs"), Column("request", "requested_s", span_if_known), Column("starts in", "wait_s_q50", span),
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
    yield from _starts_basis(found, {row["answered_by"] for row in rows})


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
    yield from _starts_basis(found, {row["answered_by"] for row in rows})


def _sooner(own: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    gains = sorted(max(_gain(own, row, level), 0.0) for level in ("10", "50", "80", "95"))
    return (
        f"If it asked for {span(row['requested_s'])} instead of {span(own['requested_s'])} it would start "
        f"{span(_gain(own, row, '50'))} earlier ({span(gains[0])} to {span(gains[-1])}); "
        f"{percent(row['share_longer'], 0)} of such jobs run longer than that."
    )


def _gain(own: Mapping[str, Any], row: Mapping[str, Any], level: str) -> float:
    return float(own[f"wait_s_q{level}"] - row[f"wait_s_q{level}"])


def _starts_basis(found: Mapping[str, Any], ways: set[str | None]) -> Iterator[str]:
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
