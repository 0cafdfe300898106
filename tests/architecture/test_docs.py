"""README and command line say the same: every command is described, none is invented, and no option either."""

import re
import tomllib
from pathlib import Path

import pytest
import typer.main

from flows.cli import app

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = typer.main.get_command(app).commands
README = (ROOT / "README.md").read_text()

pytestmark = pytest.mark.skipif(len(README.splitlines()) < 10, reason="README is not written yet")


CALL = r"(?<![\w./-])(?:\.venv/bin/)?walltime ([a-z][a-z-]+)([^`\n]*)"


def calls() -> list[tuple[str, str]]:
    """Every `walltime COMMAND ...` in the README: the command and the rest of its line."""
    return [(name, rest) for name, rest in re.findall(CALL, README)]


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_is_in_the_readme(name: str) -> None:
    assert f"walltime {name}" in README


def test_every_command_in_the_readme_s_code_exists() -> None:
    code = "\n".join(re.findall(r"```.*?```|`[^`\n]+`|(?m:^ {4}[^\n]*$)", README, re.DOTALL))
    named = re.findall(r"(?:^|[\s`$])(?:\.venv/bin/)?walltime ([a-z][a-z-]*)", code)
    assert named and set(named) <= set(COMMANDS)


def test_every_option_in_the_readme_exists() -> None:
    for name, rest in calls():
        if name in COMMANDS:
            known = {option for parameter in COMMANDS[name].params for option in parameter.opts}
            assert set(re.findall(r"(?<!\S)--[a-z-]+", rest)) <= known | {"--help"}, f"walltime {name}{rest}"


def test_make_targets_in_the_readme_exist() -> None:
    targets = set(re.findall(r"(?m)^([a-z]+):", (ROOT / "Makefile").read_text()))
    named = set(re.findall(r"(?m)(?:`|^\s*\$? ?)make ([a-z]+)", README))
    assert {"run", "test"} <= named <= targets


def test_release_is_the_same_everywhere() -> None:
    from pipeline.core.version import RELEASE

    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"] == RELEASE
