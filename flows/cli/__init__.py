"""The command `walltime`."""

import atexit
import gc
import os
import sys
import warnings
from typing import NoReturn

from flows.cli.exits import exit_silently, fail, flush, missing_extra
from flows.services.files.process_guards import deny_world_writing
from pipeline.errors import WalltimeError

SHORT_COMMANDS = ("query", "ingest")
"""Commands that run for seconds at most and do no linear algebra."""


def main() -> NoReturn:
    """Run the command line. An expected failure is one sentence on stderr and exit code 2, never a traceback."""
    arguments = sys.argv[1:]
    deny_world_writing()
    if arguments[:1] == ["run"] or (arguments[:1] and arguments[0] in SHORT_COMMANDS):
        _collect_rarely()
    if arguments[:1] and arguments[0] in SHORT_COMMANDS:
        _set_libraries()
    if not sys.warnoptions:
        warnings.simplefilter("ignore", FutureWarning)
    try:
        from flows.cli.typer_app import call

        call(arguments)
    except WalltimeError as error:
        fail(str(error), error.exit_code)
    except ModuleNotFoundError as error:
        if (sentence := missing_extra(error)) is None:
            raise
        fail(sentence, 2)
    except BrokenPipeError:
        exit_silently()
    except OSError as error:
        from flows.services.files.os_errors import os_failure

        fail(str(os_failure(error)), 2)
    except SystemExit:
        flush()
        raise


def _collect_rarely() -> None:
    """Collect garbage rarely: imports make 100,000 objects and more that live until the end."""
    gc.set_threshold(100_000)
    atexit.register(_skip_last_collections)


def _skip_last_collections() -> None:
    """Spare Python's garbage collections at exit: a tenth of the time to ingest 250,000 jobs."""
    # DuckDB counts its own objects at exit and would report these as leaked.
    if "duckdb" not in sys.modules:
        gc.freeze()


def _set_libraries() -> None:
    """Set what libraries read at their import; the user's variables stay."""
    # Arrow's own allocator keeps a third more memory than it uses.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    # Idle BLAS threads spin for a while: a tenth of the time to ingest 250,000 jobs.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # pydantic looks for plugins by reading the metadata of every installed package.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
