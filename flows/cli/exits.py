"""How a command exits: its codes, one sentence on stderr, or silence where the reader of its output has gone."""

import os
import sys
from dataclasses import dataclass
from typing import NoReturn

from pipeline.errors import printable


@dataclass(frozen=True, slots=True)
class ExitCode:
    """One exit code: its number, a name for scripts, the commands that end with it, and what it means."""

    code: int
    name: str
    commands: str
    meaning: str


EXIT_CODES = (
    ExitCode(0, "done", "all", "The command did what it was asked for; a note of `walltime doctor` is no failure."),
    ExitCode(1, "output_closed", "all", "The program that read the output has gone, as `head` does."),
    ExitCode(1, "round_failed", "apply --once", "The round failed; the sentence on stderr says why."),
    ExitCode(1, "fault", "all", "A fault of Walltime; the traceback on stderr belongs into a report."),
    ExitCode(2, "failure", "all", "An expected failure, as of an option, a config, a log or a disk; see its sentence."),
    ExitCode(3, "warning", "doctor", "A check found something to look at; the tables are intact."),
    ExitCode(3, "refused", "inputs predict", "The model refused every point; the output has the reason of each."),
    ExitCode(4, "broken", "doctor", "A check found something broken, and says what to do."),
    ExitCode(4, "blocked", "run, doctor --checks", "A check blocked the publication; the tables from before stay."),
    ExitCode(75, "busy", "run, rerun", "Another run publishes to the folder; a later try may succeed."),
    ExitCode(129, "hangup", "all", "Ended by SIGHUP, 128 + 1; the terminal has gone."),
    ExitCode(130, "interrupted", "all", "Ended by Ctrl-C, 128 + 2."),
    ExitCode(137, "killed", "all", "Ended by SIGKILL, 128 + 9, as for want of memory; the next run goes on."),
    ExitCode(143, "terminated", "all", "Ended by SIGTERM, 128 + 15, as by `systemctl stop`."),
)
"""Every exit code of every command; where a code has several meanings, the command decides."""


EXTRAS = {"matplotlib": "pages", "otf2": "otf2", "distributed": "dask", "xlsxwriter": "xlsx"}
"""Packages that only some commands need, by import name, and the extra of `pip install` that brings each."""


def missing_extra(error: ModuleNotFoundError) -> str | None:
    """The sentence on a package of an extra that is not installed; None for any other package."""
    package = (error.name or "").split(".")[0]
    if package not in EXTRAS:
        return None
    return f"this needs the package {package}, which is not installed: pip install 'walltime[{EXTRAS[package]}]'."


def fail(sentence: str, code: int) -> NoReturn:
    """Exit with the code after one sentence on stderr."""
    sys.stderr.write(f"walltime: {printable(sentence, 2000)}\n")
    sys.exit(code)


def flush() -> None:
    """Write buffered output; a closed pipe is not reported."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        exit_silently()


def exit_silently() -> NoReturn:
    """Exit with code 1 and no message, because the reader of stdout has gone."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(1)
