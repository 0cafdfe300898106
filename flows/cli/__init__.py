"""The command `walltime`. Each command imports what it needs when it is called, so that --help is there at once."""

import os
import sys
import warnings
from typing import Any, NoReturn

import typer

from flows.cli.advice import advice
from flows.cli.backtest import backtest
from flows.cli.clean import clean
from flows.cli.columns import columns
from flows.cli.evaluate_scaling import evaluate_scaling
from flows.cli.fit_series import fit_series
from flows.cli.ingest import ingest
from flows.cli.inspect import inspect
from flows.cli.options import Version
from flows.cli.quarantine import quarantine
from flows.cli.query import query
from flows.cli.report import report
from flows.cli.run import run
from flows.cli.search_templates import search_templates
from flows.cli.show import show
from flows.environment import set_short_run_defaults
from pipeline.core.errors import WalltimeError
from pipeline.core.text import printable

app = typer.Typer(
    name="walltime",
    help="Mines a cluster's accounting log and tells its scheduler, with an interval, how long a job will run.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
# What typer makes its own errors of, and does not name.
_UsageError: Any = typer.BadParameter.__base__

for command in (
    run, ingest, inspect, quarantine, clean, fit_series, evaluate_scaling, report, query, advice, backtest,
    show, search_templates, columns,
):  # fmt: skip
    app.command()(command)


@app.callback()
def _common(version: Version = False) -> None:
    """Mines a cluster's accounting log and tells its scheduler, with an interval, how long a job will run."""


def main() -> NoReturn:
    """Run the command line; an expected failure is one sentence on stderr and exit code 2, never a traceback."""
    if sys.argv[1:2] == ["query"]:
        # Before its options are read, because typer loads pydantic for that.
        set_short_run_defaults()
    if not sys.warnoptions:
        warnings.simplefilter("ignore", FutureWarning)
    try:
        sys.exit(app(prog_name="walltime", standalone_mode=False))
    except _UsageError as error:
        _misused(error)
    except WalltimeError as error:
        _fail(str(error), error.exit_code)
    except BrokenPipeError:
        _hush()
    except OSError as error:
        from flows.failures import os_failure

        _fail(str(os_failure(error)), 2)
    except SystemExit as ending:
        _flush(ending)
        raise


def _misused(error: Any) -> NoReturn:
    """One sentence on options that cannot be used, and where they are explained; without any option, all of it."""
    if not error.ctx or "NoArgs" in type(error).__name__:
        error.show()
        sys.exit(error.exit_code)
    _fail(f"{error.format_message().rstrip('.')}; {error.ctx.command_path} --help explains.", error.exit_code)


def _fail(sentence: str, code: int) -> NoReturn:
    sys.stderr.write(f"walltime: {printable(sentence, 2000)}\n")
    sys.exit(code)


def _flush(ending: SystemExit) -> None:
    """Write what is left; a reader who has gone is no failure worth a message."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _hush()
    del ending


def _hush() -> NoReturn:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(1)
