"""The command `walltime`. A `walltime query` with plain options is answered without typer, which loads slowly."""

import sys
import warnings
from typing import Any, NoReturn

from flows.cli.exits import exit_silently, fail, flush
from flows.cli.fast_start import collect_rarely, set_fast_start
from flows.services.files.file_modes import deny_world_writing
from pipeline.core.errors import WalltimeError


def __getattr__(name: str) -> Any:
    """`app`, the typer application, made at first use."""
    if name != "app":
        raise AttributeError(f"module {__name__} has no attribute {name}")
    from flows.cli.typer_app import app

    return app


def main() -> NoReturn:
    """Run the command line. An expected failure is one sentence on stderr and exit code 2, never a traceback."""
    arguments = sys.argv[1:]
    deny_world_writing()
    if arguments[:1] == ["query"]:
        # Before the first large import.
        set_fast_start()
    elif arguments[:1] == ["run"]:
        collect_rarely()
    if not sys.warnoptions:
        warnings.simplefilter("ignore", FutureWarning)
    try:
        _call(arguments)
    except WalltimeError as error:
        fail(str(error), error.exit_code)
    except BrokenPipeError:
        exit_silently()
    except OSError as error:
        from flows.services.files.os_errors import os_failure

        fail(str(os_failure(error)), 2)
    except SystemExit:
        flush()
        raise


def _call(arguments: list[str]) -> NoReturn:
    if arguments[:1] == ["query"]:
        from flows.cli.query_options import plain_question

        question = plain_question(arguments[1:])
        if question is not None:
            from flows.cli.answer_query import answer_query

            answer_query(**question)
            sys.exit(0)
    from flows.cli.typer_app import call

    call(arguments)
