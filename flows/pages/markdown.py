"""What Prefect's artifacts show, as Markdown and rows. Text from logs is escaped: it breaks no table or link."""

import string
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pipeline.errors import printable
from pipeline.publish import Manifest
from pipeline.publish.checks import LEVELS
from pipeline.report import Report

_ENTITIES = {"<": "&lt;", ">": "&gt;", "&": "&amp;"}
_ESCAPED = {ord(c): _ENTITIES.get(c, f"\\{c}") for c in string.punctuation}
_MEANINGS = {
    "in_80_later": "runs within the 80% interval of a law",
    "in_95_later": "runs within the 95% interval of a law",
    "coverage_80": "jobs within the 80% interval of their estimate",
    "coverage_q80": "jobs below the 80% quantile of their estimate",
    "coverage_q90": "jobs below the 90% quantile of their estimate",
    "coverage_q95": "jobs below the 95% quantile of their estimate",
}


def escape(text: object, limit: int = 200) -> str:
    """Text that Markdown shows unchanged on one line: punctuation is escaped, control characters are spelt out."""
    return printable(str(text), limit).translate(_ESCAPED)


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table; the first column is text, the others are numbers. Cells are escaped here."""
    lines = [header, [":--", *["--:"] * (len(header) - 1)]]
    body = [[escape(cell) for cell in row] for row in rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in [*lines, *body])


def version_markdown(manifest: Manifest, link: str) -> str:
    """A version for a person: how well it predicted later jobs, what it read and set aside, its checks."""
    clean, accuracy = manifest.report("clean"), []
    for stage, levels in LEVELS.items():
        facts = (manifest.report(stage) or {}).get("facts", {})
        for name, level in levels:
            if facts.get(name) is not None:
                accuracy.append((_MEANINGS[name], f"{facts[name]:.1%}", f"{level:.0%}"))
    parts = [f"# {escape(manifest.site)}: version {escape(manifest.folder)}"]
    parts += [table(("later jobs, predicted before they ended", "share", "aim"), accuracy)] if accuracy else []
    if clean is not None:
        parts.append(_jobs_table(Report.from_dict(clean)))
    checks = manifest.report("checks")
    parts += [checks_markdown(Report.from_dict(checks))] if checks is not None else []
    address = link if link.isprintable() and not set(link) & set("<>() ") else ""
    parts += [f"[Look at it]({address})"] if address else []
    return "\n\n".join([*parts, f"Code {escape(manifest.code)}, run {escape(manifest.run_id)}"]) + "\n"


def _jobs_table(clean: Report) -> str:
    tallies = {"read": clean.seen, "used": clean.kept}
    tallies |= {f"set aside: {reason}": tally for reason, tally in clean.set_aside.items() if tally.rows}
    rows = [(name, f"{tally.rows:,}", f"{tally.proc_s / 3600:,.1f}") for name, tally in tallies.items()]
    return table(("", "jobs", "processor-hours"), rows)


def checks_markdown(checks: Report) -> str:
    """The checks of a version, with a sentence for each that failed."""
    parts = [table(("check", "result"), [(name, str(state)) for name, state in checks.facts.items()])]
    return "\n\n".join([*parts, *(f"- {escape(note, 500)}" for note in checks.notes)])


def changed_rows(manifest: Manifest, before: Manifest | None) -> list[dict[str, Any]]:
    """The tables of a version: their rows now, in the version before, and the change; None where that had no such."""
    earlier: Mapping[str, Any] = before.tables if before else {}
    return [
        {
            "table": name,
            "rows": entry.rows,
            "before": earlier[name].rows if name in earlier else None,
            "change": entry.rows - earlier[name].rows if name in earlier else None,
        }
        for name, entry in manifest.tables.items()
    ]
