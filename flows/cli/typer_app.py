"""The typer application. Each command imports its services when it is called, so that --help starts fast."""

import sys
from typing import Any, NoReturn

import typer

from flows.cli.commands.advice import advice
from flows.cli.commands.advise import advise
from flows.cli.commands.apply import apply
from flows.cli.commands.ask import ask
from flows.cli.commands.backtest import backtest
from flows.cli.commands.check import check
from flows.cli.commands.clean import clean
from flows.cli.commands.columns import columns
from flows.cli.commands.compare import compare
from flows.cli.commands.doctor import doctor
from flows.cli.commands.evaluate_scaling import evaluate_scaling
from flows.cli.commands.exit_codes import exit_codes
from flows.cli.commands.export import export
from flows.cli.commands.fit_series import fit_series
from flows.cli.commands.hold import hold
from flows.cli.commands.ingest import ingest
from flows.cli.commands.init import init
from flows.cli.commands.inspect import inspect
from flows.cli.commands.learn import learn
from flows.cli.commands.metrics import metrics
from flows.cli.commands.moldable import moldable
from flows.cli.commands.page import page
from flows.cli.commands.phase_plan import phase_plan
from flows.cli.commands.phase_times import phase_times
from flows.cli.commands.phases import phases
from flows.cli.commands.predict_phases import predict_phases
from flows.cli.commands.promote import promote
from flows.cli.commands.quarantine import quarantine
from flows.cli.commands.query import query
from flows.cli.commands.release import release
from flows.cli.commands.replay import replay
from flows.cli.commands.report import report
from flows.cli.commands.rerun import rerun
from flows.cli.commands.rollback import rollback
from flows.cli.commands.run import run
from flows.cli.commands.search_templates import search_templates
from flows.cli.commands.serve import serve
from flows.cli.commands.show import show
from flows.cli.commands.suggest import suggest
from flows.cli.commands.versions import versions
from flows.cli.commands.watch import watch
from flows.cli.exits import fail
from flows.cli.options import Version
from flows.cli.register import register

app = typer.Typer(
    name="walltime",
    help="Predicts job runtimes, with intervals, from a cluster's accounting log.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
# The base class of typer's usage errors, which typer does not export.
_UsageError: Any = typer.BadParameter.__base__

for command in (
    run, ingest, inspect, quarantine, clean, apply, fit_series, evaluate_scaling, report, query, advice, advise,
    backtest, replay, moldable, show, search_templates, columns, watch, export,
    learn, ask, suggest,
    phases, phase_plan, phase_times, predict_phases,
    versions, promote, rollback, hold, release, rerun, compare, check, doctor, init, serve,
    metrics, page, exit_codes,
):  # fmt: skip
    register(app, command)


@app.callback()
def _common(version: Version = False) -> None:
    """Predicts job runtimes, with intervals, from a cluster's accounting log."""


def call(arguments: list[str]) -> NoReturn:
    """Run the command that the arguments name, and exit; errors that the command raises pass through."""
    try:
        sys.exit(app(arguments, prog_name="walltime", standalone_mode=False))
    except _UsageError as error:
        _misused(error)


def _misused(error: Any) -> NoReturn:
    """Exit with one sentence on the wrong option and a pointer to --help; without arguments, with the whole help."""
    if not error.ctx or "NoArgs" in type(error).__name__:
        error.show()
        sys.exit(error.exit_code)
    sentence = error.format_message().rstrip(".")
    # A question is an end of its own, as in "Did you mean 'show'?".
    end = "" if sentence.endswith("?") else ";"
    fail(f"{sentence}{end} {error.ctx.command_path} --help explains.", error.exit_code)
