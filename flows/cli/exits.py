"""How a command exits: its codes, one sentence on stderr, or silence where the reader of its output has gone."""

import os
import sys
from typing import Any, NoReturn

import typer

from pipeline.errors import WalltimeError, printable

EXTRAS = {"otf2": "otf2", "xlsxwriter": "xlsx"}
"""Packages that only some commands need, by import name, and the extra of `pip install` that brings each."""


_USAGE_ERROR: Any = typer.BadParameter.__base__
"""The base class of typer's usage errors, which typer does not export."""


def exit_after(arguments: list[str]) -> NoReturn:
    """Run the command that the arguments name, and exit; errors become codes and one sentence here and nowhere else."""
    try:
        from flows.cli.typer_app import application

        try:
            sys.exit(application(arguments)(arguments, prog_name="walltime", standalone_mode=False))
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
