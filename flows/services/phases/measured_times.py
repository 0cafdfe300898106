"""Reads a CSV of phase times that a user measured: phase_id, occurrence, time_s, optionally is_warmup."""

import csv
import io
import math
from pathlib import Path

import numpy as np
import pyarrow as pa

from flows.services.files.os_errors import read_text
from pipeline.core.errors import InputError
from pipeline.core.text import printable
from pipeline.phases.prediction.occurrences import Occurrences
from pipeline.phases.prediction.times import times_table

NEEDED = ("phase_id", "occurrence", "time_s")
_TRUE, _FALSE = {"1", "true", "yes"}, {"0", "false", "no", ""}


def read_measured_times(path: Path, points: pa.Table, trace_id: str, platform: str) -> pa.Table | None:
    """PHASE_TIMES of a CSV, in s; None where the file is no such CSV. InputError with the line of a wrong row."""
    if not path.is_file() or not _looks_right(path):
        return None
    reader = csv.DictReader(io.StringIO(read_text(path, "a CSV of times, in UTF-8")))
    found = Occurrences.of(points)
    pairs = zip(found.phase.tolist(), found.occurrence.tolist(), strict=True)
    places = {pair: place for place, pair in enumerate(pairs)}
    rows: dict[tuple[int, bool], float] = {}
    for row in reader:
        where = f"{printable(str(path))}, line {reader.line_num}"
        place, is_warmup = _place(row, places, where), _is_warmup(row, where)
        if (place, is_warmup) in rows:
            raise InputError(where, "an occurrence that was timed above", "one line per occurrence")
        rows[place, is_warmup] = _seconds(row, where)
    if not rows:
        raise InputError(printable(str(path)), "no times", "one line per timed occurrence")
    is_warmup_of = np.array([is_warmup for _, is_warmup in rows], np.bool_)
    at, times_s = np.array([place for place, _ in rows]), np.array(list(rows.values()))
    return times_table(found, at, times_s, is_warmup_of, np.zeros(len(at), np.bool_), (trace_id, platform))


def _looks_right(path: Path) -> bool:
    with path.open("rb") as source:
        names = source.readline(4096).decode("utf-8-sig", "replace").strip().split(",")
    return set(NEEDED) <= {name.strip() for name in names}


def _place(row: dict[str, str | None], places: dict[tuple[int, int], int], where: str) -> int:
    phase, occurrence = (row.get(name) or "" for name in ("phase_id", "occurrence"))
    if not (phase.isdecimal() and occurrence.isdecimal()) or (int(phase), int(occurrence)) not in places:
        found = f"phase {printable(phase, 40) or 'empty'}, occurrence {printable(occurrence, 40) or 'empty'}"
        raise InputError(where, found, "a phase and an occurrence of this run", "see the plan")
    return places[int(phase), int(occurrence)]


def _seconds(row: dict[str, str | None], where: str) -> float:
    text = row.get("time_s") or ""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise InputError(where, f"time_s {printable(text, 40) or 'empty'}", "seconds, 0 or more")
    return value


def _is_warmup(row: dict[str, str | None], where: str) -> bool:
    text = (row.get("is_warmup") or "").strip().lower()
    if text not in _TRUE | _FALSE:
        raise InputError(where, f"is_warmup {printable(text, 40)}", "true or false")
    return text in _TRUE
