"""The rows of WASTE as pages show them, with what to ask for instead in words, and the carbon of their energy."""

import csv
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from flows.services.files.os_errors import naming_path
from flows.services.quantities import instant_s
from pipeline.arrays import Floats
from pipeline.errors import InputError, printable
from pipeline.large_tables import StoredTable
from pipeline.publish import Manifest
from pipeline.storage import read_table
from pipeline.tables import JOBS, WASTE
from pipeline.usage.waste import KIB_PER_GIB, USERS, Intensity, carbon

MOST_G_PER_KWH = 10_000.0
HOUR_S = 3600.0


def waste_rows(
    manifest: Manifest, applications: Sequence[Mapping[str, Any]], given: str | None, *, users: bool
) -> list[dict[str, Any]]:
    """The rows of WASTE, those of users only where asked for or nothing else has a name; none without the table.

    `ask` has what to ask for instead, as texts; the scaling advice is that of the rows of `applications`. `given` is
    the site's intensity, as `intensity_of` reads it: the rows then have `carbon_kg`, `unused_carbon_kg` and `n_carbon`,
    which are None without it.
    """
    if WASTE.name not in manifest.tables:
        return []
    rows = read_table(manifest.path(WASTE.name), WASTE).to_pylist()
    found = carbon(StoredTable(manifest.path(JOBS.name), JOBS), intensity_of(given)) if given is not None else {}
    advised = {one["name"]: one for one in applications if one["best_procs"] is not None}
    none = dict.fromkeys(("carbon_kg", "unused_carbon_kg", "n_carbon"))
    told = {row["kind"] for row in rows if row["kind"] == "all" or row["name"] is not None}
    # A kind that the log never names has one row, which is that of all jobs; then users are what can be told apart.
    shown = told if users or told == {"all", USERS} else told - {USERS}
    return [
        row | none | found.get((row["kind"], row["name"]), {}) | {"ask": _ask(row, advised)}
        for row in rows
        if row["kind"] in shown
    ]


def _ask(row: Mapping[str, Any], advised: Mapping[str | None, Mapping[str, Any]]) -> list[str]:
    said = []
    if row["kind"] == "application" and (best := advised.get(row["name"])) and best["best_procs"] != row["usual_procs"]:
        doubt = "reliable" if best["best_reliability"] == "ok" else f"doubtful: {best['best_reliability']}"
        said.append(f"{_procs(best['best_procs'])} by scaling advice for its largest group ({doubt})")
    if row["ask_procs"] is not None:
        said.append(f"{_procs(row['ask_procs'])}, not {row['usual_procs']:,} ({_rests(row, 'procs')})")
    if row["ask_mem_kib"] is not None:
        ask, usual = (row[name] / KIB_PER_GIB for name in ("ask_mem_kib", "usual_mem_kib"))
        said.append(f"{ask:.3g} GiB per processor, not {usual:.3g} ({_rests(row, 'mem')})")
    return said


def _procs(n: int) -> str:
    return f"{n:,} processor{'s' if n > 1 else ''}"


def _rests(row: Mapping[str, Any], of: str) -> str:
    n_jobs, share = row[f"n_ask_{of}"], row[f"ask_{of}_share"]
    return f"enough for {share:.0%} of such jobs, from {n_jobs:,} job{'s' if n_jobs > 1 else ''}"


def intensity_of(given: str) -> Intensity:
    """The intensity of a site's power, g CO2e per kWh: a number, or a CSV of `time,g_per_kwh` with a row an hour.

    Times are ISO 8601, UTC without a zone. A row holds for an hour or until the next row, if that is earlier. A job
    has the mean over its time; it is unknown where an hour of it is not in the file. InputError for anything else.
    """
    if re.fullmatch(r"[0-9]+(\.[0-9]*)?", given):
        number = _checked(given, "--carbon")
        return lambda start_s, _end_s: np.full(len(start_s), number)
    path = Path(given)
    with naming_path(path), path.open(encoding="utf-8-sig", errors="backslashreplace", newline="") as lines:
        rows = [row for row in csv.reader(lines) if row]
    if not rows or rows[0] != ["time", "g_per_kwh"]:
        found = ",".join(rows[0]) if rows else "nothing"
        raise InputError(f"--carbon {printable(given)}", printable(found, 60), "the header time,g_per_kwh")
    times, values = [], []
    for place, row in enumerate(rows[1:], 2):
        where = f"{printable(given)}:{place}"
        if len(row) != 2:
            raise InputError(where, f"{len(row)} values", "a time and a number")
        times.append(instant_s(where, row[0], "UTC"))
        values.append(_checked(row[1], where))
    order = np.argsort(times, kind="stable")
    return _by_hour(np.asarray(times, np.float64)[order], np.asarray(values)[order])


def _checked(text: str, where: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = np.nan
    if not 0 <= number <= MOST_G_PER_KWH:
        raise InputError(where, printable(text, 60), f"0 to {MOST_G_PER_KWH:,.0f} g CO2e per kWh")
    return number


def _by_hour(begin_s: Floats, g_per_kwh: Floats) -> Intensity:
    """The mean over a time of values that hold from their begin for an hour, or until the next begin."""
    length_s = np.minimum(np.diff(begin_s, append=np.inf), HOUR_S)
    known_s = np.concatenate([[0.0], np.cumsum(length_s)])
    grams = np.concatenate([[0.0], np.cumsum(length_s * g_per_kwh)])

    def until(at_s: Floats) -> tuple[Floats, Floats]:
        """The seconds with a value before a time, and the integral of the value over them."""
        place = np.searchsorted(begin_s, at_s, side="right") - 1
        held_s = np.where(place >= 0, np.minimum(at_s - begin_s[place], length_s[place]), 0.0)
        return known_s[np.maximum(place, 0)] + held_s, grams[np.maximum(place, 0)] + held_s * g_per_kwh[place]

    def mean(start_s: Floats, end_s: Floats) -> Floats:
        if not len(begin_s):
            return np.full(len(start_s), np.nan)
        first, last = until(start_s), until(end_s)
        span_s = end_s - start_s
        is_known = (span_s > 0) & (last[0] - first[0] >= span_s - 1e-6)
        return np.where(is_known, (last[1] - first[1]) / np.where(span_s > 0, span_s, 1.0), np.nan)

    return mean
