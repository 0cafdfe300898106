"""The command `walltime`, and how it exits: its codes, one sentence on stderr, or silence where its reader has gone."""

import atexit
import gc
import os
import sys
import warnings
from typing import Any, NoReturn

import typer

from flows.services.files.os_errors import deny_world_writing, os_failure
from pipeline.errors import WalltimeError, printable

SHORT_COMMANDS = ("query", "ingest")
"""Commands that run for seconds at most and do no linear algebra."""

LIBRARIES = {
    # Arrow's own allocator keeps a third more memory than it uses.
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    # Idle BLAS threads spin for a while: a tenth of the time to ingest 250,000 jobs.
    "OPENBLAS_NUM_THREADS": "1",
    # pydantic looks for plugins by reading the metadata of every installed package.
    "PYDANTIC_DISABLE_PLUGINS": "__all__",
}
"""What libraries read at their import, for short commands; the user's variables stay."""

EXTRAS = {"otf2": "otf2", "xlsxwriter": "xlsx"}
"""Packages that only some commands need, by import name, and the extra of `pip install` that brings each."""


def main() -> NoReturn:
    """Run the command line, and exit; errors become codes and one sentence on stderr here and nowhere else."""
    arguments = sys.argv[1:]
    deny_world_writing()
    if arguments[:1] and arguments[0] in (*SHORT_COMMANDS, "run"):
        # Imports make 100,000 objects and more that live until the end.
        gc.set_threshold(100_000)
        atexit.register(_skip_last_collections)
    if arguments[:1] and arguments[0] in SHORT_COMMANDS:
        os.environ.update(LIBRARIES | os.environ)
    if not sys.warnoptions:
        warnings.simplefilter("ignore", FutureWarning)
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
        _fail(str(os_failure(error)), 2)
    except typer.TyperException as error:
        _misused(error)


def _skip_last_collections() -> None:
    """Spare Python's garbage collections at exit: a tenth of the time to ingest 250,000 jobs."""
    # DuckDB counts its own objects at exit and would report these as leaked.
    if "duckdb" not in sys.modules:
        gc.freeze()


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
