"""`walltime watch`: follows the accounting between two runs, and changes pending jobs' times where asked to."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Annotated, Literal

import typer

from flows.cli.options import Json

Config = Annotated[
    Path,
    typer.Argument(
        metavar="CONFIG",
        readable=False,
        help="A TOML file with a [source] of kind sacct or folder, to whose output_dir a run has published.",
    ),
]
Every = Annotated[str, typer.Option("--every", metavar="TIME", help="Time between two rounds, as in 5m or 90s.")]
Yes = Annotated[bool, typer.Option("--yes", help="Change pending jobs; without it the changes are only printed.")]
For = Annotated[
    Literal["slurm", "pbs"] | None,
    typer.Option("--for", help="The scheduler: slurm (TimeLimit) or pbs (soft_walltime); default: the config's."),
]
Once = Annotated[bool, typer.Option("--once", help="One round, for cron; exit code 1 where it fails.")]
_ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class _StoppedError(BaseException):
    """A signal has asked the watch to end while it read, computed or waited."""


def watch(
    config: Config, every: Every = "5m", yes: Yes = False, scheduler: For = None, once: Once = False, json: Json = False
) -> None:
    """Every few minutes read what the accounting has new, bring the State up to date, and apply it to pending jobs.

    A round that fails is reported in one sentence and tried again later. SIGTERM and SIGINT end it with exit code 0.
    """
    from flows.services.quantities import seconds
    from flows.services.run.prepare import run_settings
    from flows.services.watch.watching import Watch, rounds, watching_alone

    every_s, settings = seconds(every, "--every"), run_settings(config)
    chosen = scheduler or settings.apply.scheduler
    follows = Watch(settings, config, chosen, os.environ, is_dry_run=not yes)
    has_failed = False
    with watching_alone(Path(settings.output_dir)), _ending_on_signals(lambda: follows.is_applying) as asked:
        try:
            for found in rounds(follows, every_s, time.time, asked.wait, once=once):
                _print(found, 0.0 if once else follows.wait_s(every_s), as_json=json)
                has_failed = bool(found.failure)
        except _StoppedError:
            pass
    if once and has_failed:
        raise typer.Exit(1)


def _print(found: object, wait_s: float, *, as_json: bool) -> None:
    from flows.pages.terminal.json_out import print_json_lines
    from flows.pages.terminal.render_watch import print_failure, print_round
    from flows.services.watch.watching import Round

    assert isinstance(found, Round)  # nosec B101 # for the type checker
    if found.failure:
        print_failure(found, wait_s)
    if as_json:
        print_json_lines([found.as_dict()])
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
