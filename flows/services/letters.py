"""The texts for users, and the tables for a site; names come from logs and are escaped. Nothing is sent."""

import csv
import io
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from flows.services.files.os_errors import naming_path
from flows.services.quantities import instant
from pipeline.errors import InputError, printable, spreadsheet_text
from pipeline.storage import write_text

PEOPLE = (
    "name", "n_jobs", "requested_hours", "used_hours", "unused_hours", "removed_hours", "lost_hours", "n_beyond",
    "share_within",
)  # fmt: skip
LIMITS = ("name", "requested_s", "procs", "n_jobs", "limit_s")


def check_folder(folder: Path | None, *, score: bool) -> None:
    """InputError, before any work, where the advice cannot be written."""
    if folder is not None and score:
        raise InputError("--out", "also --score", "one of the two: figures are only printed", "redirect them to a file")
    if folder is not None and folder.exists() and not folder.is_dir():
        raise InputError(f"--out {printable(str(folder))}", "a file", "the path of a folder")


def write_advice(folder: Path, found: Mapping[str, Any]) -> dict[str, Path]:
    """Write users.csv (or accounts.csv), limits.csv and a text per user below `folder`; returns their paths."""
    limits = ({"name": row["name"]} | one for row in found["rows"] for one in row["limits"])
    texts = {
        folder / f"{found['by']}s.csv": as_csv(PEOPLE, found["rows"]),
        folder / "limits.csv": as_csv(LIMITS, limits),
    }
    for place, row in enumerate(found["rows"], 1):
        texts[folder / "mail" / f"{place:04}-{_safe(row['name'])}.txt"] = letter(row, found)
    for path, text in texts.items():
        with naming_path(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            write_text(path, text)
    return {"people": folder / f"{found['by']}s.csv", "limits": folder / "limits.csv", "mail": folder / "mail"}


def as_csv(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> str:
    """Rows as CSV with a header; a text that a spreadsheet would take for a formula begins with an apostrophe."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_cell(row[name]) for name in columns] for row in rows)
    return out.getvalue()


def _cell(value: object) -> object:
    if isinstance(value, str):
        return spreadsheet_text(printable(value))
    return f"{value:.6g}" if isinstance(value, float) else value


def _safe(name: str) -> str:
    """The part of a name that any file system takes; the number before it makes the file's name unique."""
    return re.sub(r"[^A-Za-z0-9_-]+", "_", name)[:40]


def letter(row: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    """The text for one user or account: what was not used, recommended limits, and what they would have done."""
    days = [str(instant(int(found[name])))[:10] for name in ("from_s", "until_s")]
    part = row["unused_hours"] / row["requested_hours"] if row["requested_hours"] else 0.0
    return "\n".join([
        f"Hello {printable(row['name'])},", "",
        f"From {days[0]} to {days[1]} {row['n_jobs']:,} jobs of yours with a requested time ended "
        f"({printable(found['log'])}).",
        f"They requested {row['requested_hours']:,.0f} processor-hours and did not use {row['unused_hours']:,.0f} of "
        f"these ({part:.0%}).",
        "Jobs that request less time can start earlier, because the scheduler finds a gap for them.", "",
        *_limits(row), "",
        f"Limits are recommended so that {found['promise']:.1%} of all jobs end in time. Those recommended at your",
        f"jobs' submits would have been too short for {row['n_beyond']:,} of them. A job that reaches its limit is "
        "stopped:",
        "request more time where you know better.",
        "",
    ])  # fmt: skip


def _limits(row: Mapping[str, Any]) -> list[str]:
    if all(one["limit_s"] >= one["requested_s"] for one in row["limits"]):
        return ["No shorter limit is recommended for your usual requests: keep them."]
    lines = [f"{'you request':>14} {'processors':>10} {'jobs':>8} {'recommended':>14}"]
    return ["Recommended limits for your most frequent requests:", "", *lines] + [
        f"{clock(one['requested_s']):>14} {one['procs']:>10,.0f} {one['n_jobs']:>8,} {clock(one['limit_s']):>14}"
        for one in row["limits"]
    ]


def clock(seconds: float) -> str:
    """A duration as hours:minutes:seconds, rounded up to a second."""
    whole = math.ceil(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"
