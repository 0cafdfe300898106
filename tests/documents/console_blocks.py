"""The commands of a document, with the output that it shows.

A block of the kind `console` holds commands behind `$ `, continued behind `> `, each followed by its output. There
`...` stands for anything within a line, and on a line of its own for any lines. A comment `<!-- not run: why -->` above
a block says that a test cannot run it.
"""

import re
from dataclasses import dataclass
from pathlib import Path

BLOCK = re.compile(r"(?ms)^(?:<!-- not run: (?P<why>[^\n]*?) -->\n)?```console\n(?P<body>.*?)^```$")


@dataclass(frozen=True)
class Command:
    """One command of a document: where it stands, its text, the lines shown below it, and why it is not run."""

    document: str
    line: int
    text: str
    shown: tuple[str, ...]
    why_not: str | None


def commands_of(path: Path, root: Path) -> list[Command]:
    """The commands of a document, in order."""
    text = path.read_text(encoding="utf-8")
    found: list[Command] = []
    for block in BLOCK.finditer(text):
        first = text.count("\n", 0, block.start("body")) + 1
        found += _of_block(str(path.relative_to(root)), first, block["body"], block["why"])
    return found


def _of_block(document: str, first: int, body: str, why: str | None) -> list[Command]:
    found: list[Command] = []
    for number, line in enumerate(body.splitlines(), first):
        last = found[-1] if found else None
        if line.startswith("$ "):
            found.append(Command(document, number, line[2:], (), why))
        elif last is None:
            raise ValueError(f"{document}, line {number}: a console block begins with a command behind '$ '")
        elif line.startswith("> ") and not last.shown:
            found[-1] = Command(document, last.line, f"{last.text}\n{line[2:]}", (), why)
        else:
            found[-1] = Command(document, last.line, last.text, (*last.shown, line), why)
    return found


def matches(shown: tuple[str, ...], output: str) -> bool:
    """Whether the output is what a document shows; runs of blanks count as one, and rules of tables as equal."""
    pattern = "".join(_line_pattern(one) for one in _lines("\n".join(shown)))
    return re.fullmatch(pattern, "".join(f"{one}\n" for one in _lines(output))) is not None


def _lines(text: str) -> list[str]:
    lines = [" ".join(line.split()) for line in text.splitlines()]
    return [re.sub("─+", "─", line) for line in lines if line]


def _line_pattern(line: str) -> str:
    if line == "...":
        return r"(?:[^\n]*\n)*?"
    return r"[^\n]*".join(re.escape(part) for part in line.split("...")) + r"\n"
