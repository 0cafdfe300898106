"""The options --quiet and --verbose that every command has, and its progress line."""

import inspect
import resource
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Annotated, Any

import typer

from flows.pages.terminal.activity import showing_activity
from flows.pages.terminal.verbosity import Verbosity, printing
from pipeline.errors import InputError, WalltimeError

ACTING_COMMANDS = frozenset({
    "run", "rerun", "init", "doctor", "ingest", "clean", "report", "export", "apply", "versions promote",
    "versions rollback", "versions pin", "versions unpin",
})  # fmt: skip
"""Commands that write files, change something or answer by their exit code: with --quiet they print errors only."""

LASTING_COMMANDS = frozenset({"serve"})
"""Commands that go on until a signal ends them: they have no progress."""

STEPPING_COMMANDS = frozenset({"run", "rerun"})
"""Commands that show their steps, or one line of JSON for each event."""

Quiet = Annotated[bool, typer.Option("--quiet", help="Print errors and what was asked for only: no progress.")]
QuietAct = Annotated[bool, typer.Option("--quiet", help="Print errors only, and with --json the answer.")]
Verbose = Annotated[
    bool, typer.Option("--verbose", help="Also print time and memory, and for a failure where it arose.")
]


def with_verbosity(command: Callable[..., None], name: str) -> Callable[..., None]:
    """The command with the options --quiet and --verbose, as far as it has none of its own."""
    own = inspect.signature(command)
    offered = {"quiet": QuietAct if name in ACTING_COMMANDS else Quiet, "verbose": Verbose}
    added = [
        inspect.Parameter(option, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=annotation)
        for option, annotation in offered.items()
        if option not in own.parameters
    ]

    @wraps(command)
    def call(**options: Any) -> None:
        # What a command's own --verbose shows, as Prefect's log, is up to the command.
        is_verbose = options["verbose"] and "verbose" not in own.parameters
        chosen = _verbosity(name, quiet=options["quiet"], verbose=is_verbose)
        with printing(chosen), _surrounded(name, chosen):
            command(**{option: options[option] for option in own.parameters})

    call.__signature__ = own.replace(parameters=[*own.parameters.values(), *added])  # type: ignore[attr-defined]
    call.__annotations__ = command.__annotations__ | {one.name: one.annotation for one in added}
    return call


def _verbosity(name: str, *, quiet: bool, verbose: bool) -> Verbosity:
    if quiet and verbose:
        raise InputError("the command line", "both --quiet and --verbose", "one of the two")
    if quiet:
        return Verbosity.SILENT if name in ACTING_COMMANDS else Verbosity.QUIET
    return Verbosity.VERBOSE if verbose else Verbosity.NORMAL


@contextmanager
def _surrounded(name: str, chosen: Verbosity) -> Iterator[None]:
    """Show progress while the command runs; where it is verbose, its time, its memory and the place of a failure."""
    began = time.monotonic()
    is_shown = name not in LASTING_COMMANDS and chosen in (Verbosity.NORMAL, Verbosity.VERBOSE)
    try:
        if is_shown:
            with showing_activity(name, has_line=name not in STEPPING_COMMANDS):
                yield
        else:
            yield
    except (WalltimeError, OSError):
        if chosen is Verbosity.VERBOSE:
            traceback.print_exc()
        raise
    finally:
        if chosen is Verbosity.VERBOSE:
            peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            sys.stderr.write(f"walltime {name}: {time.monotonic() - began:.1f} s, {peak_mib:.0f} MiB at most\n")
