"""How a command exits: its codes, one sentence on stderr, or silence where the reader of its output has gone."""

import os
import sys
from dataclasses import dataclass
from typing import Any, NoReturn

import typer

from pipeline.errors import WalltimeError, printable


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


_USAGE_ERROR: Any = typer.BadParameter.__base__
"""The base class of typer's usage errors, which typer does not export."""


def exit_after(arguments: list[str]) -> NoReturn:
    """Run the command that the arguments name, and exit; errors become codes and one sentence here and nowhere else."""
    try:
        from flows.cli.typer_app import app

        try:
            sys.exit(app(arguments, prog_name="walltime", standalone_mode=False))
        finally:
            # A reader that has gone is noticed here.
            sys.stdout.flush()
    except WalltimeError as error:
        _fail(str(error), error.exit_code)
    except ModuleNotFoundError as error:
        package = (error.name or "").split(".")[0]
        if package not in EXTRAS:
            raise
        _fail(
            f"this needs the package {package}, which is not installed: pip install 'walltime[{EXTRAS[package]}]'.", 2
        )
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        from flows.services.files.os_errors import os_failure

        _fail(str(os_failure(error)), 2)
    except _USAGE_ERROR as error:
        _misused(error)


def _misused(error: Any) -> NoReturn:
    """Exit with one sentence on the wrong option and a pointer to --help; without arguments, with the whole help."""
    if not error.ctx or "NoArgs" in type(error).__name__:
        error.show()
        sys.exit(error.exit_code)
    sentence = error.format_message().rstrip(".")
    # A question is an end of its own, as in "Did you mean 'show'?".
    end = "" if sentence.endswith("?") else ";"
    _fail(f"{sentence}{end} {error.ctx.command_path} --help explains.", error.exit_code)


def _fail(sentence: str, code: int) -> NoReturn:
    """Exit with the code after one sentence on stderr."""
    sys.stderr.write(f"walltime: {printable(sentence, 2000)}\n")
    sys.exit(code)
