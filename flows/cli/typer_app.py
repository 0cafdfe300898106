"""The typer application. Each command imports its services when it is called, so that --help starts fast."""

import sys
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup

from flows.cli.commands.backtest import backtest
from flows.cli.commands.clean import clean
from flows.cli.commands.ingest import ingest
from flows.cli.commands.inputs import learn, predict_points, suggest
from flows.cli.commands.limits import limits
from flows.cli.commands.phases import find_phases, plan_phases, predict_phases, time_phases
from flows.cli.commands.query import query
from flows.cli.commands.replay import replay
from flows.cli.commands.report import report
from flows.cli.commands.rerun import rerun
from flows.cli.commands.run import run
from flows.cli.commands.scaling import advise_procs, evaluate_predictors, fit_series
from flows.cli.commands.scheduler import apply, export
from flows.cli.commands.show import show
from flows.cli.commands.standing import doctor, init, serve
from flows.cli.commands.versions import compare, list_versions, pin, promote, rollback, unpin
from flows.cli.exits import fail
from flows.cli.options import Version
from flows.cli.verbosity_options import with_verbosity

Commands = Mapping[str, Callable[..., None]]

PANELS: Mapping[str, Commands] = {
    "Every night": {"run": run, "rerun": rerun, "serve": serve, "init": init, "doctor": doctor},
    "Look": {"ingest": ingest, "clean": clean, "show": show},
    "Ask": {"query": query, "report": report, "limits": limits},
    "Study": {"backtest": backtest, "replay": replay},
    "Feed the scheduler": {"export": export, "apply": apply},
}
"""The commands by what a person wants to do, in the order of --help."""

GROUPS: Mapping[str, tuple[str, Commands]] = {
    "versions": (
        "Versions of the published tables: list, compare, publish, keep.",
        {"list": list_versions, "promote": promote, "rollback": rollback, "pin": pin, "unpin": unpin,
         "compare": compare},
    ),
    "scaling": (
        "Runtime over processors: laws fitted to measured runs, and processor counts to request.",
        {"fit": fit_series, "evaluate": evaluate_predictors, "advise": advise_procs},
    ),
    "inputs": (
        "Runtime over a program's inputs: a model of past runs, its predictions, the next runs to make.",
        {"learn": learn, "predict": predict_points, "suggest": suggest},
    ),
    "phases": (
        "Runtime on another machine, from the phases that a traced run repeats.",
        {"find": find_phases, "plan": plan_phases, "time": time_phases, "predict": predict_phases},
    ),
}  # fmt: skip
"""The groups of commands with their help."""


class PanelGroup(TyperGroup):
    """Lists commands by their panels without rich, whose import would take longer than the rest of --help."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write each panel's commands with the first lines of their help."""
        listed = [(name, self.commands[name]) for name in self.list_commands(ctx)]
        width = formatter.width - 6 - max(len(name) for name, _ in listed)
        panels: dict[str, list[tuple[str, str]]] = {}
        for name, command in listed:
            panel = str(getattr(command, "rich_help_panel", None) or "Commands")
            panels.setdefault(panel, []).append((name, command.get_short_help_str(width)))
        for panel, rows in panels.items():
            with formatter.section(panel):
                formatter.write_dl(rows)


def _application(name: str, help_text: str) -> typer.Typer:
    return typer.Typer(
        name=name,
        help=help_text,
        cls=PanelGroup,
        no_args_is_help=True,
        context_settings={"help_option_names": ["-h", "--help"]},
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )


app = _application("walltime", "Predicts job runtimes, with intervals, from a cluster's accounting log.")
for panel, commands in PANELS.items():
    for name, command in commands.items():
        app.command(name, rich_help_panel=panel)(with_verbosity(command, name))
for group, (help_text, commands) in GROUPS.items():
    added = _application(group, help_text)
    for name, command in commands.items():
        added.command(name)(with_verbosity(command, f"{group} {name}"))
    app.add_typer(added, rich_help_panel="Groups of commands")

# The base class of typer's usage errors, which typer does not export.
_UsageError: Any = typer.BadParameter.__base__


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
