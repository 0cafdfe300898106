"""`walltime query` and `when`: the expected runtime of a job, or of a file of jobs, and when jobs will start."""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import typer

from flows.cli import options as shared
from flows.cli.options import check_mode, option
from flows.pages.blocks import Answer, Block, Column, Exact, Grid, Lead, any_value, columns, number, percent, span
from flows.services.quantities import LATER, as_of_seconds, instant, instant_s, memory_text, words
from pipeline.errors import InputError, printable

SUBMITTERS = ("user", "account", "user_group")
JOB_OPTIONS = ("requested", "user", "account", "application", "job_name", "queue")
"""What `when` asks of a hypothetical job, beside its processors."""

PERCENT = (10, 50, 80, 90, 95, 99)


def query(
    ctx: typer.Context,
    published: Path = shared.FROM,
    user: str | None = shared.USER,
    account: str | None = shared.ACCOUNT,
    user_group: str | None = shared.USER_GROUP,
    application: str | None = shared.APPLICATION,
    job_name: str | None = shared.JOB_NAME,
    comment: str | None = option("--comment", "The job's comment, for [[inputs.rules]] that read it."),
    submit_line: str | None = option("--submit-line", "The job's submit line, for [[inputs.rules]] that read it."),
    queue: str | None = shared.QUEUE,
    partition: str | None = option("--partition", "The partition (Slurm's name for a queue)."),
    qos: str | None = option("--qos", "The quality of service."),
    problem_size: str | None = shared.PROBLEM_SIZE,
    array_id: str | None = option("--array-id", "The job array of a waiting task; its ended tasks are used first."),
    procs: int | None = option("--procs", "Processors requested.", min=1, max=2**53),
    nodes: int | None = option("--nodes", "Nodes requested; without --procs all processors of each.", min=1),
    gpus: int | None = option("--gpus", "GPUs requested; default: none.", min=0),
    gpu_type: str | None = option("--gpu-type", "The type of the GPUs, as the log names it; default: the usual one."),
    requested: str | None = shared.REQUESTED,
    memory: str | None = option("--memory SIZE", "Memory of the whole job, as in 4G; divided by --procs, else by 1."),
    mem_per_cpu: str | None = option("--mem-per-cpu SIZE", "Memory requested per processor, instead of --memory."),
    at: str | None = option("--at TIME", "Submit time (ISO), or `later`: in the next week; default: the log's end."),
    batch: Path | None = option("--batch FILE.csv", "A file of jobs, one a line, with columns named like the options."),
    out: Path | None = option(
        "--out", "Write the answers to a batch, as .csv or .parquet.", callback=shared.table_file
    ),
    key_file: Path | None = shared.KEY_FILE,
    as_of: str | None = shared.AS_OF,
    platform: str | None = option(
        "--platform NAME",
        "Instead: the runtime on another machine by walltime phases predict, for --application and --procs if given.",
    ),
) -> Answer:
    """Estimate how long a job will run: quantiles, and how many past jobs they use. What is not given is unknown.

    \b
    Examples:
      walltime query --from my-site-tables --user u17 --application solver_n16.sh --procs 64 --requested 4h
      walltime query --from my-site-tables --batch jobs.csv --out answers.parquet
    """
    from flows.services.job_answers import JOB_FIELDS, answer, job_of

    check_mode(ctx, "--platform", is_on=platform is not None, own=(), shared=("--from", "--application", "--procs"))
    check_mode(ctx, "--batch", is_on=batch is not None, own=("--out",), shared=("--from", "--key-file", "--as-of"))
    if platform is not None:
        from flows.pages.phases import view_prediction
        from flows.services.phase_folder import platform_answer

        found = platform_answer(published, platform, application, procs)
        return Answer(found, (block for one in found["predictions"] for block in view_prediction(one)))
    as_of_s = as_of_seconds(as_of)
    if batch is not None:
        from flows.services.files.table_files import write_rows
        from flows.services.job_answers import answer_batch, facts_of, state_of
        from pipeline.publish import read_version

        manifest = read_version(published, as_of_s)
        loaded = state_of(manifest, is_live=as_of_s is None)
        rows, described = answer_batch(loaded, batch, key_file)
        if out is None:
            return Answer(rows, view_batch(rows, facts_of(loaded), described), is_lines=True)
        write_rows(out, rows)
        said = Exact(f"Wrote the answers to {described} to {printable(str(out), 1000)}")
        return Answer(rows, [said], is_lines=True)
    if memory is not None and mem_per_cpu is not None:
        raise InputError("--memory", "--mem-per-cpu beside it", "one of the two")
    job = job_of(shared.given(ctx, JOB_FIELDS))
    found = answer(published, job, key_file, as_of_s)
    return Answer(found, view_answer(found))


def when(
    ctx: typer.Context,
    published: Path = shared.FROM,
    job: str | None = option("--job ID", "Only these jobs, with commas between them; default: all that wait or run."),
    scheduler: Literal["slurm", "pbs"] | None = option(
        "--for", "The scheduler that lists queue and nodes; default: guard.scheduler of the published run."
    ),
    queue_file: Path | None = option(
        "--queue-file FILE", "The output of squeue --json or qstat -f -F json, instead of running it."
    ),
    at: str | None = option("--at TIME", "The time of that output (ISO); default: as written, and without a file now."),
    procs: int | None = option("--procs", "Instead: predict for a job that would request these processors now.", min=1),
    requested: str | None = shared.REQUESTED,
    user: str | None = shared.USER,
    account: str | None = shared.ACCOUNT,
    application: str | None = shared.APPLICATION,
    job_name: str | None = shared.JOB_NAME,
    queue: str | None = shared.QUEUE,
) -> Answer:
    """Predict when waiting jobs will start and how much longer running jobs will run, as quantiles.

    With --procs: when a job that is submitted now would start and end, and what a shorter request or another number of
    processors would change. No start is predicted for a job that is on hold or depends on another one.

    \b
    Examples:
      walltime when --from my-site-tables
      walltime when --from my-site-tables --job 4711,4712 --json
      walltime when --from my-site-tables --user u17 --procs 64 --requested 24h
    """
    from flows.services.job_answers import job_of
    from flows.services.schedulers import SCHEDULERS
    from flows.services.when import Now, hypothetical, queue_in
    from flows.services.when import when as answered
    from pipeline.limits.plan import scheduler_of
    from pipeline.publish import load_manifest

    own = [f"--{name.replace('_', '-')}" for name in JOB_OPTIONS]
    check_mode(ctx, "--procs", is_on=procs is not None, own=own, shared=("--from", "--for", "--queue-file", "--at"))
    at_s = None if at is None else float(instant_s("--at", at, "UTC"))
    program = SCHEDULERS[scheduler or scheduler_of(load_manifest(published).settings)]
    if queue_file:
        now = queue_in(queue_file, program, at_s)
    else:
        now = Now(program.queued(os.environ), program.nodes(os.environ), time.time() if at_s is None else at_s)
    if procs is None:
        found = answered(published, words(job), now)
        return Answer(found, view_when(found))
    named = job_of(shared.given(ctx, (*JOB_OPTIONS, "procs")))
    found = hypothetical(published, named, now)
    return Answer(found, view_hypothetical(found))


def view_answer(found: Mapping[str, Any]) -> Iterator[Block]:
    """The estimate, its quantiles, the past jobs they rest on, and the errors on this log."""
    yield Lead(span(found["runtime_s"]), " is the expected runtime of such a job (median).")
    rows = [{"percent": f"{q}%", "runtime_s": found[f"runtime_s_q{q}"], "held": found[f"held_q{q}"]} for q in PERCENT]
    yield Grid("", columns("quantiles")[: 3 if found["answered_by"] == "predictions" else 4], rows)
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
    shown = [
        Column(name, form=any_value, is_text=not name.startswith(("runtime_s", "n_", "is_known")), limit=60)
        for name in (rows[0] if rows else ())
    ]
    yield Grid("", shown, rows)
    yield f"{described}. {accuracy(facts)}"


def explanation(found: Mapping[str, Any]) -> Iterator[str]:
    """Sentences on the past jobs that the answer rests on, and on the errors on this log."""
    from pipeline.schema import UNTOLD, Axis, counted

    if found["is_usual_procs"]:
        yield f"--procs is not given: the answer is for {found['procs']:,}, as the newest similar job had."
    if found["usual_requested_s"]:
        usual = span(found["usual_requested_s"])
        yield f"--requested is not given: the answer is for {usual}, as most of the newest similar jobs requested."
    if found["gpus"]:
        of_type = "" if found["gpu_type"] == UNTOLD else f" of type {found['gpu_type']}"
        compared = (
            "Only jobs on the same GPUs are compared."
            if found["log_has_gpus"]
            else "The log has no jobs with GPUs: the estimate uses jobs without."
        )
        yield f"The job holds {counted(found['gpus'], Axis.GPUS)}{of_type}. {compared}"
    if found["unknown_names"]:
        yield f"The log has no {', '.join(found['unknown_names'])}: the estimate uses jobs with other values."
    if memory_kib := found["job"].get("requested_mem_kib"):
        size = f"{number(memory_kib / 1024)} MiB per processor"
        yield f"The requested memory is {size}. Only jobs with the same memory are compared."
    if found["answered_by"] == "inputs":
        model = "The estimate comes from a model over the inputs that are named in the job's texts"
        yield f"{model}; the sentences below are about the method walltime."
    if found["answered_by"] == "predictions":
        has_submitter = any(found["job"].get(name) for name in SUBMITTERS)
        missing = "No request is" if has_submitter else "No user and no request are"
        yield f"{missing} given: this is the published prediction of the group {found['group']}."
        yield from filter(None, [found["advice"]])
    else:
        if found["scaled_from"] is not None:
            yield (
                f"The group {found['group']} never ran on this count: the estimate is that for "
                f"{found['scaled_from']:,}, times the ratio of the group's published predictions."
            )
        yield _basis(found)
        if found["is_unusual_request"]:
            yield _unusual(found)
        yield accuracy(found)
    when = f"{span(found['age_s'])} before the submit" if found["age_s"] else "the assumed submit time"
    when = "some time in the days before the submit" if found["job"].get("at") == LATER else when
    yield f"The known log ends at {instant(found['as_of_s'])}, {when}."
    if requested_s := found["job"].get("requested_s"):
        yield _of_the_request(found, requested_s)
    if "recommended_mem_kib" in found:
        yield _of_memory(found)
    yield from found["notes"]


def _of_the_request(found: Mapping[str, Any], requested_s: float) -> str:
    """How much of the request is enough, or how many jobs would be stopped at it."""
    reached = next((q for q in (10, 50, 80, 90, 95) if found[f"runtime_s_q{q}"] >= requested_s), None)
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


def accuracy(facts: Mapping[str, Any]) -> str:
    """A sentence on the errors and coverage of the method on this log."""
    return (
        f"On this log the method {facts['method']} has a mean absolute error of {facts['mae_over_mean']:.0%} of the "
        f"mean runtime; {facts['held_q95']:.1%} of the last {facts['n_scored']:,} ended jobs stayed within its q95."
    )


def _basis(found: Mapping[str, Any]) -> str:
    # Without a request no job has the same one in most logs, and the two counts would be 0 for that reason alone.
    is_compared = bool(found["job"].get("requested_s"))
    everybody = f"{_jobs(found['n_everybody'])} of all users with the same application and requested time"
    among = f", among them {everybody}" if is_compared else ""
    column = next((name for name in SUBMITTERS if found["job"].get(name)), None)
    who = f"{column} {found['job'][column]}" if column else ""
    if not column:
        return f"No user is given: the estimate uses the jobs of all users{among}."
    if not found["is_known"]:
        return f"The log has no jobs of {who}: the estimate uses the jobs of all users{among}."
    of_kind = "with the same application, memory and processors" if found["job"].get("application") else ""
    own = f", {found['n_kind']:,} of these {of_kind}" if of_kind else ""
    rest = f"{',' if own else ''} and {everybody}" if is_compared else ""
    return f"The estimate uses {_jobs(found['n_submitter'])} of {who} that ended{own}{rest}."


def _unusual(found: Mapping[str, Any]) -> str:
    """A warning: the submitter has never requested a time near this one."""
    least, most = span(found["least_requested_s"]), span(found["most_requested_s"])
    requested = least if least == most else f"{least} to {most}"
    # On first thirds 80% intervals of such longer requests held 54 to 74%, of shorter ones 77 to 83%.
    doubt = (
        "the estimate assumes a longer runtime, and its intervals contain fewer jobs than stated"
        if (found["job"]["requested_s"] > found["most_requested_s"])
        else "the estimate assumes no longer runtime"
    )
    return (
        f"This request is unusual: none of the user's {_jobs(found['n_remembered'])} compared requested half to "
        f"twice as much. They requested {requested} and took {span(found['usual_runtime_s'])} in the median; {doubt}."
    )


def _jobs(count: int) -> str:
    return f"{count:,} job{'' if count == 1 else 's'}"


ANSWERED = {
    "simulation": "past jobs that waited in a similar queue, with the queue simulated",
    "similar": "past jobs that waited in a similar queue",
    "draws": "the simulated queue alone: its accuracy is not known yet",
    "idle": "the idle machine: no job runs on the nodes, and the jobs fit there with all that wait before them",
}
"""What answered, in words."""


TITLES = {
    "queued": ("Waiting", "waiting"),
    "running": ("Running: time left", "running"),
    "queued_held": ("Held", "held"),
}
"""The tables of a queue by the status of their jobs: the title and the columns."""


def view_when(found: Mapping[str, Any]) -> Iterator[Block]:
    """The jobs that wait, run and are held, and what the answers rest on."""
    rows = [dict(row) for row in found["jobs"]]
    for row in rows:
        for level in ("q50", "q80", "q95"):
            at_s = row[f"start_s_{level}"]
            row[f"until_{level}"] = None if at_s is None else max(at_s - found["at_s"], 0.0)
    for status, (title, table) in TITLES.items():
        if own := [row for row in rows if row["status"] == status]:
            yield Grid(title, columns(table), sorted(own, key=lambda row: row["dispatch_time"] or 0.0))
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
        yield Grid("", columns("choices", ends_in=lambda row: row["wait_s_q50"] + row["runtime_s_q50"]), sizes)
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
    from pipeline.arrays import DAY_S
    from pipeline.schedule.starts import CALIBRATION_S

    named: Sequence[str] = [ANSWERED[way] for way in ANSWERED if way in ways]
    if named:
        yield f"Expected starts come from {'; or from '.join(named)}."
    if record := found["record"]:
        days = round(CALIBRATION_S / DAY_S)
        yield (
            f"Of {record['n_scored']:,} such questions of the last {days} days {percent(record['held_q80'])} of the "
            f"starts were by the 80% time and {percent(record['held_q95'])} by the 95% time, before calibration; the "
            f"median error was {span(record['median_error_s'])}."
        )
    yield (
        f"At {instant(int(found['at_s']))} {found['n_running']:,} jobs ran and {found['n_waiting']:,} waited on "
        f"{found['processors']:,.0f} processors; the log is known until {instant(found['as_of_s'])}."
    )
