"""`walltime export`, `guard` and `limits`: estimates and time limits for a scheduler, as files, times or advice."""

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Literal

import typer

from flows.cli.options import CONFIG, CONFIG_OPTION, FROM, JSON, argument, option
from flows.pages.activity import end_activity_line
from flows.pages.blocks import Answer, Block, Exact, Grid, columns, percent, span, wrote
from flows.services.files.os_errors import config_settings, on_signals, sentence_of
from flows.services.quantities import clock, instant, memory_text
from pipeline.errors import InputError, WalltimeError, printable

if TYPE_CHECKING:
    from flows.services.guard import Guard, Watch

FAILED = 1
"""The exit code where the scheduler refused some of the changes, or the only round failed."""

LEARN_S = 300.0
"""Time between two readings of the accounting."""

_ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def export(
    folder: Path = argument("DIR", "The folder to write into."),
    scheduler: Literal["slurm", "pbs", "csv"] = option(
        "--for", "slurm: job_submit.lua and its look-up; pbs: a hook and its look-up; csv: one table.", ...
    ),
    published: Path = FROM,
    config: Path | None = CONFIG_OPTION,
) -> Answer:
    """Write the published estimates for a scheduler that looks them up at each submit, or as a table.

    The settings are those of the run, or of --config. Each file is replaced in one step. Nothing is installed:
    INSTALL.txt says how, and is printed.

    \b
    Examples:
      walltime export slurm-plugin --for slurm --from my-site-tables
      walltime export tables --for csv
    """
    from flows.services.published.published_folder import read_columns
    from flows.services.schedulers import controller
    from pipeline.export.lookup_file import newest_end_of
    from pipeline.export.scheduler_files import INSTALL_FILE, JOBS_READ, WRITERS, PublishedTables, known_applications
    from pipeline.limits.soft import MINUTE_S
    from pipeline.publish import load_manifest
    from pipeline.settings import ExportSettings
    from pipeline.storage import write_bytes
    from pipeline.tables import ESTIMATES, JOBS, MEMORY

    manifest = load_manifest(published)
    of_run = manifest.settings
    tables = PublishedTables(
        read_columns(manifest.path(ESTIMATES.name), ESTIMATES),
        read_columns(manifest.path(JOBS.name), JOBS, JOBS_READ),
        read_columns(manifest.path(MEMORY.name), MEMORY),
        bool(of_run.get("site", {}).get("anonymise")),
        bool(of_run.get("ingest", {}).get("application_rules")),
    )
    settings = config_settings(config).export if config else ExportSettings.model_validate(of_run.get("export", {}))
    conf = ""
    if scheduler == "slurm":
        with suppress(InputError):
            slurm = controller(os.environ)
            conf = slurm.conf
            # The plug-in gets the margin that the guard will have.
            settings = settings.model_copy(update={"over_time_limit_min": slurm.over_time_limit_s / MINUTE_S})
    files = dict(WRITERS[scheduler](tables, settings))
    if conf:
        files[INSTALL_FILE] = files[INSTALL_FILE].replace(b"/etc/slurm", str(Path(conf).parent).encode())
    for name, content in files.items():
        write_bytes(folder / name, content)
    newest_end_s, install = newest_end_of((tables.estimates,)), files.get(INSTALL_FILE, b"").decode("utf-8")
    n_estimates, n_names = tables.estimates.num_rows, len(known_applications(tables.jobs))
    written = {str(folder / name): len(content) for name, content in files.items()}
    found = {
        "run_id": manifest.run_id, "site": manifest.site, "n_estimates": n_estimates, "n_names": n_names,
        "files": written, "install": install, "mode": settings.mode, "newest_end_s": newest_end_s,
        "max_age_days": settings.max_age_days,
    }  # fmt: skip
    names = f", {n_names:,} job names" if n_names else ""
    blocks: list[Block] = [f"Run {manifest.run_id} of site {manifest.site}: {n_estimates:,} estimates{names}"]
    if install:
        done = "jobs are planned by their estimates" if settings.mode == "limit" else "no job changes"
        until = instant(newest_end_s + int(settings.max_age_days * 86_400))
        blocks.append(f"export.mode is {settings.mode}: {done}. The estimates are used until {until}.")
    blocks += [Exact(f"Wrote {path} ({n_bytes:,} bytes)") for path, n_bytes in written.items()]
    return Answer(found, [*blocks, "", *map(Exact, install.split("\n"))] if install else blocks)


def limits(
    given: Path = argument("CONFIG|LOG", "A config, a log, or a table of jobs (.parquet)."),
    by: Literal["user", "account"] = option("--by", "Whose jobs are listed together.", "user"),
    out: Path | None = option(
        "--out DIR", "Also write tables (.csv) and one mail text per user; nothing is sent.", file_okay=False
    ),
    status: bool = option(
        "--status",
        "Only show what shorter limits have done by week, or would have done in a dry run; for a config or DIR.",
        False,
    ),
    memory: bool = option("--memory", "Recommend memory to ask for instead of times.", False),
) -> Answer:
    """Recommend what to request, with unused hours, per user or account; or show what shorter limits have done.

    Jobs with the same user, application, processors and request are of one kind. A kind gets a recommendation if about
    3% of its jobs ran longer than what was recommended before, and if that is much below what they request. Other kinds
    get no letter.

    --memory: the memory within which 97% of all jobs stay, measured on the later third of the log.

    \b
    Examples:
      walltime limits my-site.toml --by account --out letters
      walltime limits my-site.toml --memory --out letters
      walltime limits my-site.toml --status
    """
    from flows.services.limits import limit_facts, limit_log, write_advice
    from flows.services.progress import running_stage
    from flows.services.published.published_folder import published_folder
    from pipeline.estimate.estimates import PROMISE
    from pipeline.evaluate.request_advice import recommended_memory, recommended_requests
    from pipeline.limits.plan import scheduler_of
    from pipeline.publish import load_manifest

    if status:
        manifest = load_manifest(published_folder(given))
        # That of the published run, from which look-ups are exported.
        mode = manifest.settings.get("export", {}).get("mode", "dry_run")
        facts = {"folder": str(manifest.root), "run_id": manifest.run_id, "mode": mode}
        facts |= {"scheduler": scheduler_of(manifest.settings)} | limit_facts(manifest)
        return Answer(facts, view_limit_status(facts))
    name, past = limit_log(given, of_memory=memory)
    with running_stage("recommend memory" if memory else "recommend requests"):
        advice = recommended_memory(past, by, PROMISE) if memory else recommended_requests(past, by)
    found = {"log": name} | advice
    written = {} if out is None else write_advice(out, found)
    return Answer(found | {"written": written}, view_advice(found, written))


def guard(
    config: Path = CONFIG,
    once: bool = option("--once", "One round, for a trial; exit code 1 if it fails or a change is refused.", False),
    dry_run: bool = option("--dry-run", "One round that changes nothing, and prints what would be changed.", False),
    withdraw: bool = option("--withdraw", "Give every job its requested limit back, and exit.", False),
    json: bool = JSON,
) -> None:
    """Raise the limits that Walltime has set before running jobs reach them, so that no job is ended by one.

    A loop of rounds every 30 s, for systemd. A running job that is near its limit gets a longer limit, but never longer
    than the time it requested. Waiting jobs get the limits that the plug-in would set. The plug-in sets limits only
    while the guard runs.
    A round that fails is tried again after 5 s. SIGTERM and SIGINT give every job its request back.

    With a [source] of kind sacct or folder the guard also reads new accounting records every 5 minutes, and writes down
    when waiting jobs are expected to start. With guard.scheduler = "pbs" it does only this: OpenPBS extends
    soft_walltime by itself.

    \b
    Examples:
      walltime guard my-site.toml --dry-run
      walltime guard my-site.toml
      walltime guard my-site.toml --withdraw
    """
    from flows.services.guard import FOLLOWED, Guard, Watch, watching_alone
    from flows.services.logs import run_settings

    if once + dry_run + withdraw > 1:
        raise InputError("the command line", "more than one of them", "one of --once, --dry-run and --withdraw")
    end_activity_line()
    settings = run_settings(config)
    is_followed = settings.source.kind in FOLLOWED and not (dry_run or withdraw)
    watch = Watch(settings, config, settings.guard.scheduler, os.environ) if is_followed else None
    # With OpenPBS the accounting alone is followed, and a guard is refused.
    has_rounds = settings.guard.scheduler == "slurm" or dry_run or withdraw
    guards = Guard(lambda: run_settings(config), os.environ, dry_run, withdraw) if has_rounds else None
    asked = threading.Event()

    def stop(_: int, __: FrameType | None) -> None:
        # A second signal ends at once.
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()

    with ExitStack() as alone:
        alone.enter_context(on_signals([one for one in _ENDING if signal.getsignal(one) is not signal.SIG_IGN], stop))
        if not dry_run:
            try:
                alone.enter_context(watching_alone(Path(settings.output_dir)))
            except OSError as error:
                # Two guards do no harm, but none does.
                print_failure(error, 0.0)
        if watch and once:
            _learn(watch)
        elif watch:
            threading.Thread(target=_learn, args=(watch, asked), daemon=True).start()
        if guards is None:
            if not once:
                asked.wait()
        elif not _rounds(guards, asked, once=once or dry_run or withdraw, as_json=json):
            raise typer.Exit(FAILED)


def _rounds(guards: "Guard", asked: threading.Event, *, once: bool, as_json: bool) -> bool:
    """Rounds until a signal, and the last one, which gives back requests; whether the last round did all.

    A round is printed where it is the first or the last, or changed or lacked something.
    """
    from flows.cli.typer_app import print_answer
    from flows.services.guard import RETRY_S, tell_systemd

    tell_systemd("READY=1", os.environ)
    is_said = True
    while True:
        now_s, is_well = time.time(), None
        try:
            found = guards.run_round(now_s)
        except (WalltimeError, OSError) as error:
            print_failure(error, 0.0 if once else RETRY_S)
        else:
            is_well = all(one["refused"] is None for one in found["changes"])
            if as_json or is_said or found["changes"] or found["complaints"]:
                print_answer(Answer([found], view_round(found, now_s), is_lines=True), as_json=as_json)
        tell_systemd("WATCHDOG=1", os.environ)
        if once or (guards.is_leaving and is_well is not None):
            return bool(is_well)
        if guards.is_leaving:
            # While slurmctld is away no request can be given back: a second signal ends the waiting.
            time.sleep(RETRY_S)
        else:
            guards.is_leaving = asked.wait(RETRY_S if is_well is None else guards.round_s)
        is_said = guards.is_leaving


def _learn(watch: "Watch", asked: threading.Event | None = None) -> None:
    """Read what the accounting has new: once, or again and again beside the rounds, which wait for nothing of it."""
    while True:
        try:
            watch.run_round(int(time.time()))
        except (WalltimeError, OSError) as error:
            print_failure(error, LEARN_S if asked else 0.0)
        if asked is None or asked.wait(LEARN_S):
            return


MOST_ROWS = 20


def view_round(found: Mapping[str, Any], now_s: float) -> Iterator[Block]:
    """One line, a line a change, and what could not be known or done; for a log: lines are never wrapped."""
    changes, done = found["changes"], "would be changed" if found["dry_run"] else "changed"
    n, n_ours = sum(one["refused"] is None for one in changes), found["ours"]
    counts = f"{found['running']:,} running, {n_ours:,} of them with a shorter limit; {found['waiting']:,} waiting"
    yield Exact(f"{instant(int(now_s))} {counts}; {n:,} {done} in {found['took_s']:.1f} s")
    for one in changes:
        kind = "runs" if one["is_running"] else "waits"
        times = f"{span(one['from_s'] or 0)} -> {span(one['to_s'])} of {span(one['asked_s'] or 0)}"
        refused = f"; NOT CHANGED: {one['refused']}" if one["refused"] else ""
        yield Exact(f"  {one['job_id']} ({one['user']}, {kind}): {times}: {one['why']}{refused}")
    yield from (Exact(f"  {count:,} left alone: {reason}") for reason, count in found["left"].items())
    yield from (Exact(f"  Note: {sentence}") for sentence in found["complaints"])


def print_failure(error: Exception, wait_s: float) -> None:
    """Print one sentence on stderr, with the time until the next round where there is one."""
    again = f" Trying again in {span(wait_s)}." if wait_s else ""
    sys.stderr.write(f"walltime: {printable(sentence_of(error), 2000)}{again}\n")
    sys.stderr.flush()


def view_advice(found: Mapping[str, Any], written: Mapping[str, Path]) -> Iterator[Block]:
    """How the advice did on later jobs, then the users or accounts with most that was not used."""
    is_memory = "promise" in found
    if is_memory:
        yield from _memory_figures(found, found["figures"], found["asked"])
    elif not found["n_told"]:
        yield f"{found['log']}: no shorter request can be recommended: no kind has enough jobs that need less."
    else:
        yield (
            f"{found['log']}: a request is recommended that about {found['chance']:.0%} of its kind's earlier jobs ran "
            f"longer than. In the log's later half {found['n_told']:,} of {found['n_jobs']:,} jobs would have been "
            f"told to request less, and {percent(found['share_longer'])} of these ran longer than that."
        )
    shown = columns("memory_advice" if is_memory else "limit_advice", recommended=_first_kind)
    named = [replace(one, heading=found["by"]) if one.heading == "name" else one for one in shown]
    yield Grid("", named, found["rows"][:MOST_ROWS])
    if len(found["rows"]) > MOST_ROWS:
        yield f"{len(found['rows']) - MOST_ROWS:,} more; --json or --out lists all of them."
    yield from wrote(written)


def _first_kind(row: Mapping[str, Any]) -> str:
    """What is recommended for the first of the usual kinds of jobs, and instead of what."""
    one = next(iter(row["kinds"]), None)
    if one is None:
        return ""
    if "recommended_s" in one:
        return f"{clock(one['recommended_s'])} for {clock(one['requested_s'])}"
    instead = f" for {memory_text(one['requested_mem_kib'])}" if one["requested_mem_kib"] else ""
    return f"{memory_text(one['recommended_mem_kib'])}{instead}"


def view_limit_status(found: Mapping[str, Any]) -> Iterator[Block]:
    """Jobs that were planned shorter, how often limits were raised, and whether a job ended by one, by week."""
    yield f"The published run {found['run_id']} has export.mode {found['mode']}."
    if found["scheduler"] == "pbs":
        yield "OpenPBS gives each job more time by itself, and its records do not say who set a soft_walltime."
        return
    if not found["weeks"]:
        yield "No job that Walltime planned with a shorter limit has ended yet."
        return
    yield Grid("Jobs planned with shorter limits", columns("limit_weeks"), found["weeks"][:MOST_ROWS])
    n_ended = sum(row["n_ended"] for row in found["weeks"])
    do = " See whether the guard runs." if n_ended else ""
    yield f"{n_ended:,} jobs were ended at a limit below their requests.{do}"
    for one in found["left_alone"]:
        yield (
            f"Left alone from the next export on: {one['what']} of {one['user']}. Of its {one['n_planned']:,} planned "
            f"runs {one['n_early']:,} ended just before their first limits, as if they knew them."
        )


def _memory_figures(found: Mapping[str, Any], ours: Mapping[str, Any], asked: Mapping[str, Any]) -> Iterator[Block]:
    yield (
        f"{found['log']}: the aim is memory that {found['promise']:.1%} of all jobs stay under. Of the later "
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
            f"{percent(ours['worst_share'])} of the jobs of one user would have had too little memory, the most among "
            f"the {ours['n_submitters']:,} users with at least {found['many_jobs']:,} jobs."
        )
