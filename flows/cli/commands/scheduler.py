"""`walltime export`, `apply` and `limits`: estimates and time limits for a scheduler, as files, times or advice."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Literal

import typer

from flows.cli.options import CONFIG, CONFIG_OPTION, FROM, JSON, argument, option
from flows.pages.terminal.activity import end_activity_line
from flows.pages.terminal.blocks import Answer, print_json_lines
from flows.services.quantities import seconds
from pipeline.errors import InputError

if TYPE_CHECKING:
    from flows.services.watching import Round

FAILED = 1
"""The exit code where the scheduler refused some of the changes, or the only round failed."""

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

    The settings are those of the run, or of --config. Each file is put in place in one step. Nothing is installed:
    INSTALL.txt says how, and is printed.

    \b
    Examples:
      walltime export slurm-plugin --for slurm --from my-site-tables
      walltime export tables --for csv
    """
    from dataclasses import asdict

    from flows.pages.terminal.view_scheduler import view_exported
    from flows.services.exporting import export as write

    exported = write(published, scheduler, folder, config, os.environ)
    return Answer(asdict(exported), view_exported(exported))


def limits(
    given: Path = argument("CONFIG|LOG", "A config, a log, or a table of jobs (.parquet)."),
    by: Literal["user", "account"] = option("--by", "Whose jobs are listed together.", "user"),
    promise: str = option("--promise SHARE", "Share of all jobs that shall end within their limit.", "97%"),
    out: Path | None = option("--out DIR", "Also write tables (.csv) and one mail text per user; nothing is sent."),
    score: bool = option("--score", "Only compare the limits with other rules on the log's later half.", False),
    status: bool = option(
        "--status",
        "Only say what limits that were set have done, and for whom they are off; for a config or DIR.",
        False,
    ),
    memory: bool = option("--memory", "Recommend memory to ask for instead of time limits.", False),
    age: float = option("--age DAYS", "With --score: least age of the look-up file that each job is limited by.", 0.0),
) -> Answer:
    """Recommend runtime limits (or memory) that keep a promise, with unused hours, per user or account.

    Each midnight's limits are written as a scheduler's look-up file, and each job is limited by the file of the last
    midnight, as a plug-in would. The later half of the log measures what the limits would have done: the
    share of jobs within them, the over-requested processor-hours removed, and the used ones lost.

    --memory: the memory that the promised share of jobs stay under, measured on the later third of the log.

    \b
    Examples:
      walltime limits my-site.toml --by account --out letters
      walltime limits jobs.parquet --score
      walltime limits my-site.toml --memory --out letters
      walltime limits my-site.toml --status
    """
    from flows.pages.terminal.view_scheduler import view_limit_scores, view_limits
    from flows.services.limits import MOST_AGE_DAYS, advise, check_folder, limit_log, promise_of, write_advice
    from flows.services.limits import score as scored

    if status:
        from flows.pages.terminal.view_scheduler import view_limit_status
        from flows.services.limits import limit_status

        facts = limit_status(given)
        return Answer(facts, view_limit_status(facts))
    share = promise_of(promise)
    check_folder(out, score=score)
    if not 0 <= age <= MOST_AGE_DAYS:
        raise InputError("--age", f"{age:g}", f"days from 0 to {MOST_AGE_DAYS:g}")
    if memory:
        return _memory(given, by, share, out, score=score)
    log = limit_log(given)
    if score:
        found = scored(log, share, age)
        return Answer(found, view_limit_scores(found))
    found = advise(log, by, share)
    written = {} if out is None else write_advice(out, found)
    return Answer(found | {"written": written}, view_limits(found, written))


def _memory(given: Path, by: str, promise: float, out: Path | None, *, score: bool) -> Answer:
    from flows.pages.terminal.view_scheduler import view_memory_advice, view_memory_scores
    from flows.services.limits import advise_memory, memory_log, score_memory, write_memory_advice

    log = memory_log(given)
    if score:
        found = score_memory(log, promise)
        return Answer(found, view_memory_scores(found))
    found = advise_memory(log, by, promise)
    written = {} if out is None else write_memory_advice(out, found)
    return Answer(found | {"written": written}, view_memory_advice(found, written))


def apply(
    config: Path = CONFIG,
    dry_run: bool = option("--dry-run", "Print what would be changed, and change nothing.", False),
    yes: bool = option("--yes", "Make the changes.", False),
    scheduler: Literal["slurm", "pbs"] | None = option(
        "--for", "The scheduler: slurm (TimeLimit) or pbs (soft_walltime); default: the config's."
    ),
    every: str | None = option(
        "--every TIME",
        "Go on, and at this interval (5m, 90s) first read what the accounting has new; for a [source] of kind "
        "sacct or folder.",
    ),
    once: bool = option("--once", "One such round, for cron; exit code 1 where it fails.", False),
    json: bool = JSON,
) -> Answer | None:
    """Lower the time limits of Slurm's pending jobs, or set OpenPBS's soft_walltime, to their expected runtimes.

    No job's time is set above what its user asked for. Exit code 1: the scheduler refused some of the changes. With
    --every a round that fails is reported in one sentence and tried again later; SIGTERM and SIGINT end it with exit
    code 0.

    \b
    Examples:
      walltime apply my-site.toml --dry-run
      walltime apply my-site.toml --yes --for pbs
      walltime apply my-site.toml --yes --every 5m
    """
    from flows.pages.terminal.view_scheduler import view_applied
    from flows.services.applying import apply_estimates
    from flows.services.run.prepare import run_settings
    from flows.services.schedulers import SCHEDULERS

    if dry_run == yes:
        raise InputError("the command line", "both" if yes else "neither", "either --dry-run or --yes")
    if every is not None or once:
        _follow(config, every or "5m", scheduler, is_dry_run=dry_run, once=once, as_json=json)
        return None
    settings = run_settings(config)
    chosen = SCHEDULERS[scheduler or settings.apply.scheduler]
    applied = apply_estimates(settings, chosen, time.time(), os.environ, is_dry_run=dry_run)
    return Answer(applied, view_applied(applied), exit_code=FAILED if applied.failures else 0)


class _StoppedError(BaseException):
    """A signal has asked the rounds to end while one read, computed or waited."""


def _follow(config: Path, every: str, scheduler: str | None, *, is_dry_run: bool, once: bool, as_json: bool) -> None:
    """Round after round read what the accounting has new, bring the State up to date, and apply it to pending jobs."""
    from flows.services.run.prepare import run_settings
    from flows.services.watching import Watch, rounds, watching_alone

    end_activity_line()
    every_s, settings = seconds(every, "--every"), run_settings(config)
    follows = Watch(settings, config, scheduler or settings.apply.scheduler, os.environ, is_dry_run=is_dry_run)
    has_failed = False
    with watching_alone(Path(settings.output_dir)), _ending_on_signals(lambda: follows.is_applying) as asked:
        try:
            for found in rounds(follows, every_s, time.time, asked.wait, once=once):
                _print_round(found, 0.0 if once else follows.wait_s(every_s), as_json=as_json)
                has_failed = bool(found.failure)
        except _StoppedError:
            pass
    if once and has_failed:
        raise typer.Exit(FAILED)


def _print_round(found: "Round", wait_s: float, *, as_json: bool) -> None:
    from flows.pages.terminal.view_scheduler import print_failure, print_round

    if found.failure:
        print_failure(found, wait_s)
    if as_json:
        print_json_lines([found])
    elif not found.failure:
        print_round(found, int(time.time()))


@contextmanager
def _ending_on_signals(must_finish: Callable[[], bool]) -> Iterator[threading.Event]:
    """An event that SIGTERM, SIGINT or SIGHUP sets; the signal also ends what is running, unless that must finish.

    Files are replaced in one step, and a program that was started is ended, so that any moment will do, but changes of
    jobs are to be reported; a second signal ends these too. An ignored signal (nohup) stays ignored.
    """
    asked = threading.Event()

    def stop(_: int, __: FrameType | None) -> None:
        is_second = asked.is_set()
        asked.set()
        if is_second or not must_finish():
            raise _StoppedError

    before = {number: signal.getsignal(number) for number in _ENDING}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, stop)
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
