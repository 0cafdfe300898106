"""Reports as Markdown for Prefect's artifacts. Text from logs is escaped, so it cannot break a table or add a link."""

import string
from collections.abc import Iterable, Mapping, Sequence

from flows.pages.formats import number
from pipeline.errors import printable
from pipeline.report import Report, Tally

_ENTITIES = {"<": "&lt;", ">": "&gt;", "&": "&amp;"}
_ESCAPED = {ord(c): _ENTITIES.get(c, f"\\{c}") for c in string.punctuation}


def escape(text: object, limit: int = 200) -> str:
    """Text that Markdown shows unchanged on one line: punctuation is escaped, control characters are spelt out."""
    return printable(str(text), limit).translate(_ESCAPED)


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table; the first column is text, the others are numbers. Cells are escaped here."""
    lines = [header, [":--", *["--:"] * (len(header) - 1)]]
    body = [[escape(cell) for cell in row] for row in rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in [*lines, *body])


def report_markdown(report: Report) -> str:
    """The report of one stage."""
    rows = [("seen", report.seen), ("kept", report.kept)]
    rows += [(f"set aside: {reason}", tally) for reason, tally in report.set_aside.items()]
    parts = [f"# {escape(report.stage)}", _tallies(report.unit, rows)]
    if report.facts:
        parts.append(
            table(
                ("fact", "value"),
                [(name, number(value) if value is not None else "unknown") for name, value in report.facts.items()],
            )
        )
    parts += [f"- {escape(note, 500)}" for note in report.notes]
    return "\n\n".join(parts) + "\n"


def _tallies(unit: str, rows: Sequence[tuple[str, Tally]]) -> str:
    cells = [(name, f"{tally.rows:,}", f"{tally.proc_s / 3600:,.1f}") for name, tally in rows]
    return table(("", f"{escape(unit)}s", "processor-hours"), cells)


def facts_markdown(title: str, facts: Mapping[str, object]) -> str:
    """A titled list of names and values."""
    rows = [(name, number(value) if value is not None else "unknown") for name, value in facts.items()]
    return f"# {escape(title)}\n\n{table(('', 'value'), rows)}\n"
