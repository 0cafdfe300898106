"""What to ask for: processor counts for groups, times for a user's usual jobs, and less of what jobs do not use.

The rows of WASTE have it in words, and the carbon of their energy.
"""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from flows.services.job_answers import answers, as_ingested, state_of
from flows.services.published.browse import queried_rows
from flows.services.published.published_folder import unreliability_note
from flows.services.quantities import check_lengths, instant_s, number_of, text_table
from pipeline.arrays import HOUR_S, Floats
from pipeline.errors import InputError, nearest_name, printable
from pipeline.large_tables import StoredTable
from pipeline.publish import Manifest
from pipeline.scaling.advice import CostSettings, answered
from pipeline.schema import Axis, counted
from pipeline.tables import JOBS, WASTE
from pipeline.usage.waste import KIB_PER_GIB, USERS, Intensity, carbon

MOST_GROUPS = 5
"""Matching groups to list, those with most jobs; the others are only counted."""

_SHOWN = ("group_id", "label", "axis", "n_jobs", "n_sizes")
Row = Mapping[str, Any]


def cost_of_run(manifest: Manifest, procs_per_node: int | None = None, rate: float | None = None) -> CostSettings:
    """Processors per node and price of a processor-hour: as given, else from the run's settings."""
    site = manifest.settings.get("site", {})
    return CostSettings(
        site.get("procs_per_node") if procs_per_node is None else procs_per_node,
        site.get("price_per_proc_hour") if rate is None else rate,
    )


def advised_groups(
    manifest: Manifest, wanted: Mapping[str, str], cost: CostSettings, key_file: Path | None = None
) -> dict[str, Any]:
    """Recommended counts per group with the wanted values, in plain values and sentences; most jobs first.

    `wanted` holds values by column of GROUPS, as stored there or as a user writes them. InputError where no group
    matches.
    """
    columns = ", ".join(dict.fromkeys(("group_id", "template", *wanted)))
    groups = queried_rows(manifest, f"SELECT {columns} FROM groups ORDER BY n_jobs DESC, group_id")  # noqa: S608 # nosec B608
    found = [row["group_id"] for row in _matching(manifest, groups, wanted, key_file)]
    return {
        "site": manifest.site,
        "run_id": manifest.run_id,
        "procs_per_node": cost.procs_per_node,
        "rate": cost.rate,
        "n_groups": len(found),
        "groups": list(advice_of_groups(manifest, found[:MOST_GROUPS], cost).values()),
        "notes": [sentence for sentence in (unreliability_note(manifest),) if sentence],
    }


def advice_of_groups(manifest: Manifest, group_ids: Sequence[str], cost: CostSettings) -> dict[str, dict[str, Any]]:
    """Recommended counts by group id, as `advised_groups` gives them."""
    tables = defaultdict[str, dict[str, list[dict[str, Any]]]](dict)
    for name in ("groups", "observations", "patterns", "predictions"):
        sql = f"FROM {name} WHERE list_contains($ids, group_id)"  # nosec B608
        for row in queried_rows(manifest, sql, ids=list(group_ids)):
            tables[row["group_id"]].setdefault(name, []).append(row)
    found = {}
    for group in group_ids:
        one = {name: tables[group].get(name, []) for name in ("observations", "patterns", "predictions")}
        advised = answered(one, one["predictions"], cost)
        facts = {name: tables[group]["groups"][0][name] for name in _SHOWN}
        found[group] = facts | {name: advised[name] for name in ("answer", "choices", "energy")}
    return found


def _matching(manifest: Manifest, groups: Sequence[Row], wanted: Mapping[str, str], key_file: Path | None) -> list[Row]:
    """The groups with all wanted values; InputError where there is none.

    Names are compared as written, then as ingest would store them.
    """

    def having(values: Mapping[str, str]) -> list[Row]:
        return [row for row in groups if all(row[n] is not None and str(row[n]) == v for n, v in values.items())]

    for name in wanted:
        if all(row[name] is None for row in groups):
            template = groups[0]["template"] if groups else "nothing"
            found = f"groups by {template}, which does not contain {name}"
            raise InputError(f"--{name.replace('_', '-')}", found, "values of these columns", "leave it out")
    rows = having(wanted)
    if not rows and set(wanted) - {"group_id"}:
        job = as_ingested(state_of(manifest), key_file)(wanted)
        rows = having({name: str(job[name]) for name in wanted})
    if not rows:
        raise InputError("walltime scaling advise", *_no_match(groups, wanted))
    return rows


def _no_match(groups: Sequence[Row], wanted: Mapping[str, str]) -> tuple[str, str]:
    """The first wanted value that no group has, and a value of its column, the nearest one if any is near."""
    for name, value in wanted.items():
        known = sorted({str(row[name]) for row in groups if row[name] is not None})
        if value not in known:
            near = printable(nearest_name(value, known) or known[0], 60)
            return f"no group whose {name} is {printable(value, 60)}", f"an existing value, such as {near}"
    pairs = " and ".join(f"{name} {printable(value, 60)}" for name, value in wanted.items())
    return f"no group with {pairs} together", "values that one group has"


USUAL_KINDS = 20
_USUAL_SQL = """
SELECT application, queue, procs, requested_s, count(*) AS n_jobs, sum(procs * runtime_s) / 3600 AS proc_hours,
       median(runtime_s) AS runtime_s_median, count(*) FILTER (runtime_s >= requested_s) AS n_at_limit,
       any_value(user) AS user, any_value(account) AS account, any_value(job_name) AS job_name
FROM jobs WHERE coalesce(user, account) = $user AND runtime_s > 0 AND flag IS NULL
GROUP BY application, queue, procs, requested_s ORDER BY proc_hours DESC, n_jobs DESC, 1, 2, 3, 4
LIMIT $most"""


def user_jobs(manifest: Manifest, user: str) -> dict[str, Any]:
    """The USUAL_KINDS of jobs of a user, or of an account where the log knows no user, with most processor-hours.

    `ask_s` is the 95% quantile of the next such job, s, as `walltime query` answers it, and `expected_s` its median.
    InputError where no kept job is the user's.
    """
    rows = queried_rows(manifest, _USUAL_SQL, user=user, most=USUAL_KINDS)
    if not rows:
        raise InputError("--user", f"no kept job of {printable(user, 60)}", "a user, or an account, of the table jobs")
    for row, found in zip(rows, answers(state_of(manifest), rows), strict=True):
        row |= {"expected_s": found["runtime_s_q50"], "ask_s": found["runtime_s_q95"]}
    return {"user": user, "site": manifest.site, "version": manifest.folder, "kinds": rows}


MOST_G_PER_KWH = 10_000.0


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
    rows = queried_rows(manifest, "FROM waste")
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
        said.append(f"{best['best_count']} by scaling advice for its largest group ({doubt})")
    if row["ask_procs"] is not None:
        said.append(f"{counted(row['ask_procs'], Axis.PROCS)}, not {row['usual_procs']:,} ({_rests(row, 'procs')})")
    if row["ask_mem_kib"] is not None:
        ask, usual = (row[name] / KIB_PER_GIB for name in ("ask_mem_kib", "usual_mem_kib"))
        said.append(f"{ask:.3g} GiB per processor, not {usual:.3g} ({_rests(row, 'mem')})")
    return said


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
    where, ((_, header), *rows) = text_table(Path(given), "a number, or a CSV of time,g_per_kwh")
    if header != ["time", "g_per_kwh"] or not rows:
        raise InputError(
            f"--carbon {where}", printable(",".join(header), 60), "the header time,g_per_kwh, and rows below it"
        )
    check_lengths(where, header, rows)
    values = []
    for line, (time, intensity) in rows:
        at = f"{where}, line {line}"
        values.append((instant_s(at, time, "UTC"), _checked(intensity, at)))
    ordered = np.array(sorted(values, key=lambda value: value[0]), np.float64).reshape(-1, 2)
    return _by_hour(ordered[:, 0], ordered[:, 1])


def _checked(text: str, where: str) -> float:
    number = number_of(text)
    if number is None or not 0 <= number <= MOST_G_PER_KWH:
        raise InputError(where, printable(text, 60), f"0 to {MOST_G_PER_KWH:,.0f} g CO2e per kWh")
    return number


def _by_hour(begin_s: Floats, g_per_kwh: Floats) -> Intensity:
    """The mean over a time of values that hold from their begin for an hour, or until the next begin."""
    length_s = np.minimum(np.diff(begin_s, append=np.inf), HOUR_S)
    knots_s = np.column_stack([begin_s, begin_s + length_s]).ravel()
    # The seconds with a value before a knot, and the integral of the value over them.
    known_s, grams = (
        np.column_stack([np.cumsum(one) - one, np.cumsum(one)]).ravel() for one in (length_s, length_s * g_per_kwh)
    )

    def mean(start_s: Floats, end_s: Floats) -> Floats:
        span_s = end_s - start_s
        held_s, amount = (np.interp(end_s, knots_s, one) - np.interp(start_s, knots_s, one) for one in (known_s, grams))
        is_known = (span_s > 0) & (held_s >= span_s - 1e-6)
        return np.where(is_known, amount / np.where(span_s > 0, span_s, 1.0), np.nan)

    return mean
