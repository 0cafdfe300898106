"""The documents and the code say the same: commands and their options, make targets, settings, columns, flags, laws."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import typer.main

from docs.tools.reference import PAGES, differing
from flows.cli.typer_app import application

ROOT = Path(__file__).resolve().parents[2]
TOP = typer.main.get_command(application()).commands
GROUPS = {name: group.commands for name, group in TOP.items() if hasattr(group, "commands")}
COMMANDS = {name: command for name, command in TOP.items() if name not in GROUPS} | {
    f"{group} {name}": command for group, commands in GROUPS.items() for name, command in commands.items()
}
"""Every command by what is typed, as in `versions list`."""
README = (ROOT / "README.md").read_text(encoding="utf-8")
CALL = r"(?<![\w./-])walltime ([a-z][a-z-]+)([^`\n]*)"
HAND_WRITTEN = (
    "README.md",
    ":(glob)docs/*.md",
    "docs/tutorials",
    "docs/how-to",
    "docs/explanations",
    "docs/reference/tables.md",
)
LONGEST_SENTENCE = 40


def guides() -> list[Path]:
    """The documents that tell people what to type."""
    command = ["git", "ls-files", *HAND_WRITTEN]
    listed = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True).stdout.split()
    found = [ROOT / name for name in listed] or [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [path for path in found if "decisions" not in path.parts]


TEXTS = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in guides()}


def code_of(text: str) -> str:
    """Fenced blocks, code in lines, and indented blocks."""
    return "\n".join(re.findall(r"```.*?```|`[^`\n]+`|(?m:^ {4}[^\n]*$)", text, re.DOTALL))


def sentences(text: str) -> list[str]:
    """The sentences of a Markdown text, without code, tables, quotations, pictures, comments and headings."""
    prose = re.sub(r"(?ms)^```.*?^```|^ {4}[^\n]*$|^ *[|>][^\n]*$|^#[^\n]*$|^!\[[^\n]*$|<!--.*?-->", "\n\n", text)
    prose = re.sub(r"(?m)^\s*(?:[-*]|\d+\.) ", "\n\n", re.sub(r"\]\([^)]*\)", "]", prose))
    blocks = [" ".join(block.split()) for block in re.split(r"\n\s*\n", prose)]
    return [one for block in blocks for one in re.split(r"(?<=[.!?])\s+", block) if one]


@pytest.mark.parametrize("page", PAGES)
def test_the_generated_pages_are_those_of_the_code(page: str) -> None:
    assert page not in differing(), f"docs/{page} is older than the code: `make reference` writes it"


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_is_in_a_guide(name: str) -> None:
    assert any(f"walltime {name}" in text for text in TEXTS.values())


@pytest.mark.parametrize("document", TEXTS)
def test_every_command_in_code_exists(document: str) -> None:
    pattern = r"(?:^|(?<!import)[\s`$])walltime ([a-z][a-z-]*)(?![\w.])(?: ([a-z][a-z-]*)(?![\w./-]))?"
    named = re.findall(pattern, code_of(TEXTS[document]))
    assert {name for name, _ in named} <= set(TOP)
    assert {f"{name} {second}" for name, second in named if name in GROUPS and second} <= set(COMMANDS)


@pytest.mark.parametrize("document", TEXTS)
def test_every_option_exists(document: str) -> None:
    for first, words in re.findall(CALL, TEXTS[document]):
        second, _, after = words.strip().partition(" ")
        name, rest = (f"{first} {second}", f" {after}") if first in GROUPS else (first, words)
        if name in COMMANDS:
            known = {option for parameter in COMMANDS[name].params for option in parameter.opts}
            assert set(re.findall(r"(?<!\S)--[a-z-]+", rest)) <= known | {"--help"}, f"walltime {name}{rest}"


@pytest.mark.parametrize("document", TEXTS)
def test_commands_stand_in_console_blocks(document: str) -> None:
    """There tests/documents finds them, and runs them."""
    outside = re.sub(r"(?ms)^```console\n.*?^```$", "", TEXTS[document])
    assert not re.findall(r"(?m)^(?: {4}|\$ )(?:\.venv/bin/)?walltime .*$", outside)


def test_make_targets_exist() -> None:
    targets = set(re.findall(r"(?m)^([a-z-]+):", (ROOT / "Makefile").read_text()))
    assert {"run", "test"} <= set(re.findall(r"(?m)(?:`|^\s*\$? ?)make ([a-z-]+)", README))
    for text in TEXTS.values():
        assert set(re.findall(r"(?m)(?:`|^\s*\$? ?)make ([a-z-]+)", text)) <= targets


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) <= 120


def test_no_sentence_of_any_document_is_long() -> None:
    command = ["git", "ls-files", "*.md"]
    listed = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True).stdout.split()
    names = listed or ["README.md", *(str(path.relative_to(ROOT)) for path in sorted((ROOT / "docs").rglob("*.md")))]
    assert len(names) > 40
    found = {name: sentences((ROOT / name).read_text(encoding="utf-8")) for name in names}
    assert len(found["README.md"]) > 20
    assert not [(name, one) for name in names for one in found[name] if len(one.split()) > LONGEST_SENTENCE]


def test_sentences_are_found_across_lines_and_items() -> None:
    text = "# A\n\n> no\n\nOne two\nthree. Four [five](six).\n\n- seven\n- eight\n\n```console\nnine\n```\n| ten |\n"
    assert sentences(text) == ["One two three.", "Four [five].", "seven", "eight"]


def test_release_is_the_same_everywhere() -> None:
    from pipeline import RELEASE

    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"] == RELEASE
