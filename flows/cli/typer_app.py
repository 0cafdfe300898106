"""The typer application. Each command imports its services when it is called, so that --help starts fast."""

import inspect
import resource
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import wraps
from itertools import groupby
from typing import Any

import typer
from typer.core import TyperGroup

from flows.cli.commands import logs, models, published, query, run, scheduler, standing
from flows.cli.options import JSON, VERSION, option
from flows.pages.activity import showing_activity
from flows.pages.blocks import Answer, print_json, print_json_lines
from pipeline.errors import InputError, WalltimeError

Command = Callable[..., Answer | None]

PANELS: Mapping[str, Sequence[Command]] = {
    "Every night": (run.run, run.rerun, standing.serve, standing.init, standing.doctor),
    "Look": (logs.ingest, logs.clean, published.show),
    "Ask": (query.query, query.when, published.report, scheduler.limits),
    "Study": (logs.backtest, logs.replay),
    "Feed the scheduler": (scheduler.export, scheduler.guard),
}
"""The commands by what a person wants to do, in the order of --help; the first word of a function's name is that of
its command."""

GROUPS: Mapping[str, tuple[str, Sequence[Command]]] = {
    "versions": (
        "Versions of the published tables: list, compare, publish, keep.",
        (
            published.list_versions, published.promote, published.rollback, published.pin, published.unpin,
            published.compare,
        ),
    ),
    "scaling": (
        "Runtime over processors: laws fitted to measured runs, and processor counts to request.",
        (models.fit_series, models.evaluate_predictors, models.advise_procs),
    ),
    "inputs": (
        "Runtime over a program's inputs: a model of past runs, its predictions, the next runs to make.",
        (models.learn, models.predict_points, models.suggest),
    ),
    "phases": (
        "Runtime on another machine, from the phases that a traced run repeats.",
        (models.find_phases, models.plan_phases, models.time_phases, models.predict_phases),
    ),
}  # fmt: skip
"""The groups of commands with their help."""

ACTING_COMMANDS = frozenset({
    "run", "rerun", "init", "doctor", "ingest", "clean", "report", "export", "versions promote",
    "versions rollback", "versions pin", "versions unpin",
})  # fmt: skip
"""Commands that write files, change something or answer by their exit code: with --quiet they print errors only."""

LASTING_COMMANDS = frozenset({"serve", "guard"})
"""Commands that go on until a signal ends them: they have no progress."""

STEPPING_COMMANDS = frozenset({"run", "rerun"})
"""Commands that show their steps, or one line of JSON for each event."""

QUIET = option("--quiet", "Print only errors and the answer: no progress.", False)
QUIET_ACT = option("--quiet", "Print errors only, and with --json the answer.", False)
VERBOSE = option("--verbose", "Also print time and memory, and the traceback of a failure.", False)


class PanelGroup(TyperGroup):
    """Lists commands by their panels without rich, whose import would take longer than the rest of --help."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write each panel's commands with the whole first paragraphs of their help."""
        for panel, names in groupby(
            self.list_commands(ctx), lambda one: getattr(self.commands[one], "rich_help_panel", None)
        ):
            commands = [(name, self.commands[name].help or "") for name in names]
            with formatter.section(str(panel or "Commands")):
                formatter.write_dl([(name, text.partition("\n\n")[0].replace("\n", " ")) for name, text in commands])


def print_answer(answer: Answer, *, as_json: bool) -> None:
    """Print what a command has found."""
    if not as_json:
        from flows.pages.terminal import print_blocks

        print_blocks(answer.blocks)
    elif answer.is_lines:
        print_json_lines(answer.found)
    else:
        print_json(answer.found)


def as_command(command: Command, name: str) -> Callable[..., None]:
    """The command with --json, --quiet and --verbose, as far as it has none of its own; it prints its answer.

    Progress is shown while it runs; where it is verbose, its time, its memory and the place of a failure.
    """
    own = inspect.signature(command).parameters
    offered = {"json": JSON, "quiet": QUIET_ACT if name in ACTING_COMMANDS else QUIET, "verbose": VERBOSE}
    added = [
        inspect.Parameter(one, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=bool)
        for one, default in offered.items()
        if one not in own
    ]

    @wraps(command)
    def call(**options: Any) -> None:
        # What a command's own --verbose shows, as Prefect's log, is up to the command.
        is_verbose, is_quiet = options["verbose"] and "verbose" not in own, options["quiet"]
        if is_quiet and is_verbose:
            raise InputError("the command line", "both --quiet and --verbose", "one of the two")
        began, shows_progress = time.monotonic(), not is_quiet and name not in LASTING_COMMANDS
        activity = showing_activity(name, has_line=name not in STEPPING_COMMANDS) if shows_progress else nullcontext()
        try:
            with activity:
                answer = command(**{one: options[one] for one in own})
                if answer is not None and (options["json"] or not is_quiet or name not in ACTING_COMMANDS):
                    print_answer(answer, as_json=options["json"])
        except (WalltimeError, OSError):
            if is_verbose:
                traceback.print_exc()
            raise
        finally:
            if is_verbose:
                peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
                sys.stderr.write(f"walltime {name}: {time.monotonic() - began:.1f} s, {peak_mib:.0f} MiB at most\n")
        if answer is not None and answer.exit_code:
            raise typer.Exit(answer.exit_code)

    call.__signature__ = inspect.Signature([*own.values(), *added])  # type: ignore[attr-defined]
    call.__annotations__ = command.__annotations__ | {one.name: bool for one in added}
    return call


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


def application(arguments: Sequence[str] = ()) -> typer.Typer:
    """The command line; where the arguments begin with the name of a command or a group, with this one only."""
    found = _application("walltime", "Predicts job runtimes, with intervals, from a cluster's accounting log.")
    found.callback()(_common)
    single = {_name(command): (panel, command) for panel, commands in PANELS.items() for command in commands}
    names = {*single, *GROUPS}
    wanted = names & set(arguments[:1]) or names
    for name, (panel, command) in single.items():
        if name in wanted:
            found.command(name, rich_help_panel=panel)(as_command(command, name))
    for group, (help_text, commands) in GROUPS.items():
        if group in wanted:
            added = _application(group, help_text)
            for command in commands:
                added.command(_name(command))(as_command(command, f"{group} {_name(command)}"))
            found.add_typer(added, rich_help_panel="Groups of commands")
    return found


def _name(command: Command) -> str:
    return command.__name__.partition("_")[0]


def _common(version: bool = VERSION) -> None:
    """Predicts job runtimes, with intervals, from a cluster's accounting log."""
