"""The pages on commands and exit codes, from the typer application."""

import enum
import inspect
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer.main

from docs.tools.markdown_table import page, table
from flows.cli.typer_app import application


@dataclass(frozen=True, slots=True)
class ExitCode:
    """One exit code: its number, a name for scripts, the commands that end with it, and what it means."""

    code: int
    name: str
    commands: str
    meaning: str


EXIT_CODES = (
    ExitCode(0, "done", "all", "The command succeeded; `walltime doctor` may have notes."),
    ExitCode(1, "output_closed", "all", "The program that read the output has ended, as `head` does."),
    ExitCode(1, "round_failed", "guard --once", "The round failed; stderr has the reason."),
    ExitCode(1, "fault", "all", "A fault of Walltime; please report the traceback on stderr."),
    ExitCode(2, "failure", "all", "An error in an option, a config, a log or a disk; stderr names it."),
    ExitCode(3, "warning", "doctor", "A check has a warning; the tables are intact."),
    ExitCode(3, "refused", "inputs predict", "The model refused every point; the output has the reasons."),
    ExitCode(4, "broken", "doctor", "A check found something broken, and names what to do."),
    ExitCode(4, "blocked", "run, doctor --checks", "A check blocked the publication; the earlier tables stay."),
    ExitCode(4, "damaged", "all", "Too many records of a log look damaged (ingest.max_damaged)."),
    ExitCode(75, "busy", "run, rerun, guard", "Another run or guard has the folder; try later."),
    ExitCode(129, "hangup", "all", "Ended by SIGHUP: the terminal was closed."),
    ExitCode(130, "interrupted", "all", "Ended by Ctrl-C."),
    ExitCode(137, "killed", "all", "Ended by SIGKILL, often for lack of memory; the next run continues."),
    ExitCode(143, "terminated", "all", "Ended by SIGTERM, as by `systemctl stop`."),
)
"""Every exit code of every command; where a code has several meanings, the command decides."""

VALUES = {str: "TEXT", int: "INTEGER", float: "NUMBER"}


def commands() -> str:
    """Every command with its arguments, options and defaults, in the order of `walltime --help`."""
    found = _with_groups(typer.main.get_command(application()))
    intro = (
        "`walltime COMMAND --help` prints the same with examples. [Exit codes](../exit_codes.md) has what commands end "
        "with. Arguments in brackets may be left out."
    )
    has = {name: _rows(one) for name, one in found.items()}
    uses = Counter(row for rows in has.values() for row in rows)
    options = Counter(row[0] for row in uses.elements())
    every = {row for row in uses if options[row[0]] == len(found)}
    # A name with several meanings is told here by the one that most commands have; the others stand at their commands.
    most = {row[0]: row for row, count in sorted(uses.items(), key=lambda one: one[1]) if count > 1}
    shared = [row for row in uses if most.get(row[0]) == row and row not in every]
    parts = [part for name, one in found.items() for part in _command(name, one, set(shared), every)]
    of_every = [
        row if most[row[0]] == row else (f"{row[0]} of {', '.join(one for one in has if row in has[one])}", *row[1:])
        for row in sorted(every, key=lambda one: (one[0], -uses[one]))
    ]
    several = ["## Options of every command", _listed(of_every), "## Options of several commands", _listed(shared)]
    return page("Commands", intro, *several, *parts)


def _with_groups(root: Any) -> dict[str, Any]:
    """The commands by name, those of a group as in `versions list`."""
    found: dict[str, Any] = {}
    for name, one in root.commands.items():
        found |= (
            {f"{name} {own}": added for own, added in one.commands.items()} if hasattr(one, "commands") else {name: one}
        )
    return found


def _rows(command: Any) -> list[tuple[str, str, str, str]]:
    """A row for each argument, then for each option that `--help` shows."""
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    options = [one for one in command.params if one.param_type_name == "option" and not one.hidden]
    return [_row(one) for one in (*arguments, *options) if "--help" not in one.opts]


def _command(
    name: str, command: Any, shared: set[tuple[str, str, str, str]], every: set[tuple[str, str, str, str]]
) -> list[str]:
    """A command's call, text and own options; those it shares with some others by name alone."""
    arguments = [_metavar(one) for one in command.params if one.param_type_name == "argument"]
    text = _prose(command.help or "")
    rows = [row for row in _rows(command) if row not in every]
    own = [row for row in rows if row not in shared]
    also = ", ".join(row[0] for row in rows if row in shared)
    parts = [f"## {' '.join(['walltime', name, *arguments])}", *([text] if text else [])]
    parts += [_listed(own)] if own else []
    return [*parts, f"Also {also}."] if also else parts


def _listed(rows: list[tuple[str, str, str, str]]) -> str:
    """A line for each argument or option: its name and value, its default, its meaning."""
    shown = [(" ".join(filter(None, (name, value))), default, meaning) for name, value, default, meaning in rows]
    return "\n".join(f"- {name}{f' ({default})' if default else ''}: {meaning}" for name, default, meaning in shown)


def _prose(text: str) -> str:
    """The text without its examples."""
    told = inspect.cleandoc(text.replace("\f", "")).split("\b")[0]
    return told.strip().replace("<", "&lt;")


def _row(one: Any) -> tuple[str, str, str, str]:
    is_option = one.param_type_name == "option"
    names = ", ".join(f"`{name}`" for name in (*one.opts, *one.secondary_opts)) if is_option else _metavar(one)
    is_flag = is_option and one.is_flag
    value = "" if is_flag or not is_option else _value(one)
    return names, value, _default(one, is_flag=is_flag), one.help or ""


def _value(option: Any) -> str:
    """What stands behind an option: its metavar, its choices, or its type."""
    kind = option.type_descriptor.annotation
    if option.metavar or not isinstance(kind, type):
        return str(option.metavar or "")
    return (
        " or ".join(str(one.value) for one in kind) if issubclass(kind, enum.Enum) else VALUES.get(kind, kind.__name__)
    )


def _metavar(argument: Any) -> str:
    return str(argument.metavar or argument.name.upper())


def _default(one: Any, *, is_flag: bool) -> str:
    value = one.default
    if one.required:
        return "required" if one.param_type_name == "option" else ""
    if is_flag:
        return "on" if value is True and one.secondary_opts else ""
    # Functions would show what this machine gives; absolute paths would too.
    if value is None or callable(value) or value in ([], ()) or Path(str(value)).is_absolute():
        return ""
    return f"`{value.value if isinstance(value, enum.Enum) else value}`"


def exit_codes() -> str:
    """The table of exit codes."""
    rows = [(one.code, one.name, one.commands, one.meaning) for one in EXIT_CODES]
    intro = "Where a code has several meanings, the command decides."
    return page("Exit codes", intro, table(("code", "name", "commands", "meaning"), rows))
