"""The summary of a finished run, and what the page of a site shows: applications, cleaning, nights and the last run."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc

from flows.services.limits import limit_facts
from flows.services.published.advice import advice_of_groups, cost_of_run, waste_rows
from flows.services.published.browse import queried_rows
from flows.services.published.published_folder import compared_templates, template_sentences, unreliability_note
from flows.services.published.worst_estimates import errors_of_version, promise_by_week
from flows.services.quantities import instant
from flows.services.run_record import read_last_run
from flows.services.when import read_starts
from pipeline.arrays import DAY_S
from pipeline.errors import InputError
from pipeline.publish import Manifest
from pipeline.publish.versions import blocked_versions, stored_versions
from pipeline.report import Report, Tally, total
from pipeline.schema import Flag, axis_of, counted

SAMPLE_ROWS = 7


def summarize_version(manifest: Manifest) -> dict[str, Any]:
    """How many lines, jobs, groups, fits, predictions and estimates a version has, and some of its predictions."""
    reports = {plain["stage"]: Report.from_dict(plain) for plain in manifest.reports}
    rows = {name: entry.rows for name, entry in manifest.tables.items()}
    ingest, clean, made = reports["ingest"], reports["clean"], reports["predict"].facts
    return {
        "run_id": manifest.run_id,
        "site": manifest.site,
        "logs": [log.name for log in manifest.logs],
        "lines_read": ingest.facts.get("lines", ingest.seen.rows),
        "no_jobs": {reason: tally.rows for reason, tally in ingest.set_aside.items() if tally.rows},
        **{name: rows[name] for name in ("unreadable", "jobs", "groups", "predictions", "estimates")},
        "kept": _hours(clean.kept),
        "set_aside": {reason: _hours(tally) for reason, tally in clean.set_aside.items()},
        "set_aside_total": _hours(total(clean.set_aside.values())),
        **queried_rows(manifest, _COUNTS_SQL)[0],
        "fits": fits_by_law_and_status(manifest),
        "patterns": queried_rows(manifest, _PATTERNS_SQL),
        "predictions_ok": made["predictions_ok"],
        **{f"predictions_{name}": made[name] for name in ("in_80_later", "in_95_later")},
        "reliability": {
            name.removeprefix("predictions_"): n for name, n in made.items() if name.startswith("predictions_")
        },
        "sample": _sample(manifest),
        "templates": compared_templates(manifest),
        "notes": [note for name, report in reports.items() if name != "templates" for note in report.notes],
        "tables": {name: str(manifest.place(name)) for name in manifest.tables},
    }


def _hours(tally: Tally) -> dict[str, float]:
    return {"jobs": tally.rows, "processor_hours": tally.proc_s / 3600}


def fits_by_law_and_status(manifest: Manifest) -> dict[str, dict[str, int]]:
    """How many groups a law answers for, by law and status."""
    by_law = "SELECT law, histogram(status) AS counts FROM fits WHERE is_chosen GROUP BY law ORDER BY law"
    return {row["law"]: row["counts"] for row in queried_rows(manifest, by_law)}


_SAMPLED_SQL = """
SELECT group_id, label, g.axis, law, status, t1_s, avg_parallelism, sigma, n_points, f.n_jobs
FROM fits f JOIN groups g USING (group_id) WHERE is_chosen
ORDER BY group_id IN (SELECT group_id FROM predictions WHERE reliability = 'ok') DESC, law <> 'constant' DESC,
         n_points DESC, f.n_jobs DESC, group_id DESC LIMIT 1"""
"""One group: if possible a reliable one whose law scales, then the one with most sizes."""

_SAMPLE_SQL = """
SELECT p.*, coalesce(n_jobs, 0) AS n_jobs, runtime_s_median AS observed_s
FROM predictions p LEFT JOIN observations o ON o.group_id = p.group_id AND o.procs = p.procs
WHERE p.group_id = $group_id ORDER BY p.procs"""


def _sample(manifest: Manifest) -> dict[str, Any] | None:
    """A few predictions of one group; None where no group has a law."""
    for group in queried_rows(manifest, _SAMPLED_SQL):
        every = queried_rows(manifest, _SAMPLE_SQL, group_id=group["group_id"])
        places = np.unique(np.linspace(0, len(every) - 1, min(SAMPLE_ROWS, len(every))).round().astype(int))
        return {**group, "predictions": [every[place] for place in places]}
    return None


LISTED = 2_000
"""Applications with advice; the others are only counted on the page."""

_PATTERNS_SQL = """
SELECT label, words FROM patterns p JOIN groups g USING (group_id)
WHERE status = 'found' ORDER BY log_odds DESC, group_id, pattern, step"""
"""The patterns found in series, highest odds first: the group's label and the advice."""

_RELIABLE = """
SELECT g.application, g.group_id, o.n_jobs, p.reliability = 'ok' AS is_ok
FROM groups g LEFT JOIN observations o USING (group_id)
LEFT JOIN predictions p ON p.group_id = o.group_id AND p.procs = o.procs"""
"""The kept jobs of each group and count, and whether the prediction of their runtime is reliable."""

_COUNTS_SQL = f"""
SELECT coalesce(sum(n_jobs) FILTER (is_ok), 0)::BIGINT AS predictions_ok_jobs,
       (SELECT count(DISTINCT group_id) FROM fits WHERE n_points >= 3) AS series_3_sizes FROM ({_RELIABLE})"""  # noqa: S608 # nosec B608

_APPLICATIONS_SQL = f"""
WITH of_jobs AS (
    SELECT application, count(*) AS n_jobs, count(*) FILTER (flag IS NULL) AS n_kept FROM jobs GROUP BY application),
of_groups AS (
    SELECT application, count(DISTINCT group_id) AS n_groups, sum(n_jobs) AS n_observed,
           coalesce(sum(n_jobs) FILTER (is_ok), 0) AS n_reliable
    FROM ({_RELIABLE}) GROUP BY application),
largest AS (
    SELECT application, max_by(group_id, (n_jobs, group_id)) AS group_id
    FROM groups GROUP BY application)
SELECT j.application AS name, j.n_jobs, n_kept, coalesce(proc_hours, 0.0) AS proc_hours,
       coalesce(n_groups, 0) AS n_groups, CASE WHEN n_observed > 0 THEN n_reliable / n_observed END AS reliable_share,
       group_id
FROM of_jobs j LEFT JOIN of_groups g ON j.application IS NOT DISTINCT FROM g.application
LEFT JOIN largest l ON j.application IS NOT DISTINCT FROM l.application
LEFT JOIN waste w ON w.kind = 'application' AND j.application IS NOT DISTINCT FROM w.name
ORDER BY proc_hours DESC, name IS NULL, name"""  # noqa: S608 # nosec B608 # constants

_USERS_SQL = """
SELECT coalesce(user, account) AS user, queue, count(*) AS n_jobs, count(*) FILTER (flag IS NULL) AS n_kept,
       sum(CAST(round(runtime_s * procs) AS HUGEINT)) FILTER (isfinite(runtime_s) AND runtime_s > 0
             AND flag IS DISTINCT FROM 'impossible_times') / 3600 AS proc_hours
FROM jobs GROUP BY ALL ORDER BY proc_hours DESC NULLS LAST, 1, 2"""

_QUEUES_SQL = """
WITH in_time AS (
    SELECT * FROM jobs
    WHERE flag IS DISTINCT FROM 'impossible_times' AND submit_s BETWEEN 0 AND 7258118400)
SELECT queue, count(*) AS n_jobs, sum(procs * runtime_s) FILTER (runtime_s > 0) / 3600 AS proc_hours,
       median(start_s - submit_s) AS wait_s, quantile_cont(start_s - submit_s, 0.9) AS wait_s_q90
FROM in_time WHERE submit_s > (SELECT max(submit_s) FROM in_time) - 28 * 86400
GROUP BY queue ORDER BY proc_hours DESC NULLS LAST, queue"""

_DAYS_SQL = """
WITH in_time AS (
    SELECT *, submit_s // 86400 AS submit_day, start_s // 86400 AS start_day, end_s // 86400 AS end_day
    FROM jobs
    WHERE flag IS DISTINCT FROM 'impossible_times' AND submit_s BETWEEN 0 AND 7258118400),
days AS (
    SELECT unnest(generate_series(greatest(max(submit_day) - 27, min(submit_day)), max(submit_day))) AS day
    FROM in_time),
submitted AS (
    SELECT submit_day AS day, count(*) AS n_jobs, median(start_s - submit_s) AS wait_s,
           quantile_cont(start_s - submit_s, 0.9) AS wait_s_q90
    FROM in_time GROUP BY submit_day),
busy AS (
    SELECT day, sum(procs * (least(end_s, day * 86400 + 86400) - greatest(start_s, day * 86400))) / 3600 AS busy_hours
    FROM days JOIN in_time ON day BETWEEN start_day AND end_day GROUP BY day)
SELECT CAST(make_timestamp(day * 86400000000) AS DATE)::VARCHAR AS day, coalesce(n_jobs, 0) AS n_jobs, busy_hours,
       busy_hours / (24 * $size) AS utilisation, wait_s, wait_s_q90
FROM days LEFT JOIN submitted USING (day) LEFT JOIN busy USING (day) ORDER BY day"""

_FAILURES_SQL = """
WITH ended AS (
    SELECT * FROM jobs
    WHERE flag IS DISTINCT FROM 'impossible_times' AND end_s BETWEEN 0 AND 7258118400),
late AS (
    SELECT *, coalesce(is_lower_bound AND requested_s > 0 AND runtime_s >= requested_s, false) AS is_stopped
    FROM ended WHERE end_s > (SELECT coalesce(max(submit_s), max(end_s)) FROM ended) - 7 * 86400),
every AS (UNPIVOT late ON application, user, account, queue INTO NAME kind VALUE name),
named AS (FROM every WHERE kind <> 'user' OR $users OR NOT EXISTS (FROM every WHERE kind <> 'user'))
SELECT kind, name, count(*) AS n_jobs, count(*) FILTER (state IN ('FAILED', 'NODE_FAIL', 'BOOT_FAIL')) AS n_failed,
       count(*) FILTER (state = 'TIMEOUT' OR is_stopped) AS n_timeout,
       count(*) FILTER (state = 'OUT_OF_MEMORY') AS n_memory,
       count(*) FILTER (state = 'CANCELLED') AS n_cancelled,
       coalesce(sum(procs * runtime_s) FILTER (state IN ('FAILED', 'NODE_FAIL', 'BOOT_FAIL', 'TIMEOUT',
                'OUT_OF_MEMORY', 'CANCELLED') OR is_stopped), 0) / 3600 AS proc_hours
FROM named GROUP BY kind, name HAVING n_failed + n_timeout + n_memory + n_cancelled > 0
QUALIFY row_number() OVER (PARTITION BY kind ORDER BY proc_hours DESC, name) <= 5
ORDER BY kind, proc_hours DESC, name"""
WORST_DAYS = 7
WORST_SHOWN = 10


def estimate_facts(manifest: Manifest) -> dict[str, Any]:
    """`promise`: by week how many jobs were in their interval at the submit; `worst`: the last days' worst estimates.

    Both are empty for a version whose state and jobs are not of the same runs.
    """
    try:
        errors = errors_of_version(manifest)
    except InputError:
        return {"promise": [], "worst": []}
    submit_s, newest_s = errors.column("submit_s"), pc.max(errors.column("submit_s")).as_py() or 0
    late = errors.filter(pc.greater(submit_s, newest_s - WORST_DAYS * DAY_S)).slice(0, WORST_SHOWN)
    return {"promise": promise_by_week(errors), "worst": late.to_pylist()}


def application_rows(manifest: Manifest) -> list[dict[str, Any]]:
    """A row per application of the log, those with most processor-hours first; the name is None where it is unknown.

    `reliable_share`: of the kept jobs, those whose group has a prediction with reliability ok at their processors;
    None without kept jobs. The hours are those that the waste of an application is a part of. `advice` and
    `best_procs` are what `walltime scaling advise` answers for the largest group of the application; they are given for
    the first LISTED rows and None elsewhere.
    """
    found = queried_rows(manifest, _APPLICATIONS_SQL)
    ids = [row.pop("group_id") for row in found]
    ids[LISTED:] = [None] * len(ids[LISTED:])
    advised = advice_of_groups(manifest, [one for one in ids if one is not None], cost_of_run(manifest))
    for row, group_id in zip(found, ids, strict=True):
        group: dict[str, Any] = advised.get(group_id, {"answer": (), "choices": ()})
        best: dict[str, Any] = next(iter(group["choices"]), {})
        row["advice"] = next(iter(group["answer"]), None)
        row |= {f"best_{name}": best.get(name) for name in ("procs", "why", "reliability")}
        row["best_count"] = counted(best["procs"], axis_of(group["axis"])) if best else None
    return found


NIGHTS = 30
"""Published versions that are listed, newest first."""


def site_facts(
    output_dir: Path, manifest: Manifest, carbon: str | None = None, *, users: bool = False
) -> dict[str, Any]:
    """The page's content in plain values, for the published version or one of a date; see `waste_rows` for options."""
    found = [one.manifest for one in stored_versions(output_dir) if one.place is not None and one.manifest is not None]
    earlier = [own for own in found if own.created_s <= manifest.created_s and own.folder != manifest.folder]
    # Published versions that are still whole on disk, newest first.
    versions = [manifest, *sorted(earlier, key=lambda own: (-own.created_s, own.folder))]
    applications = application_rows(manifest)
    return {
        "site": manifest.site,
        "version": manifest.folder,
        "made": instant(manifest.created_s),
        "newest_job": instant(manifest.data_newest_end_s),
        "run_id": manifest.run_id,
        "code": manifest.code,
        "grouping": template_sentences(compared_templates(manifest)),
        "doubt": unreliability_note(manifest),
        "applications": applications,
        "user_queues": [] if any(row["name"] for row in applications) else queried_rows(manifest, _USERS_SQL),
        "queues": queried_rows(manifest, _QUEUES_SQL),
        "starts": read_starts(output_dir).to_pylist(),
        "days": queried_rows(manifest, _DAYS_SQL, size=manifest.settings.get("site", {}).get("max_procs")),
        "failures": queried_rows(manifest, _FAILURES_SQL, users=users),
        "mode": manifest.settings.get("export", {}).get("mode", "dry_run"),
        **estimate_facts(manifest),
        "waste": waste_rows(manifest, applications, carbon, users=users),
        "silent_requests": (manifest.report("waste") or {}).get("notes", []),
        "cleaning": _cleaning(manifest),
        "limits": limit_facts(manifest),
        "nights": _nights(versions[:NIGHTS]),
        "blocked": [{"made": instant(made_s), "run_id": run} for made_s, run in reversed(blocked_versions(output_dir))],
        "last_run": _last_run(output_dir),
    }


def _cleaning(manifest: Manifest) -> list[dict[str, Any]]:
    """Rows of jobs and processor-hours: kept ones, those set aside by reason, and all."""
    report = manifest.report("clean")
    if report is None:
        return []
    reasons = {name: one for name, one in report["set_aside"].items() if one["rows"]}
    meanings = {"kept": "learnt from"} | {str(flag): flag.meaning for flag in Flag}
    return [
        {"name": name, "meaning": meanings.get(name, ""), "jobs": one["rows"], "proc_hours": one["proc_s"] / 3600}
        for name, one in [("kept", report["kept"]), *reasons.items(), ("all", report["seen"])]
    ]


def _nights(versions: Sequence[Manifest]) -> list[dict[str, Any]]:
    """Each version with its figures, and what changed since the version before it; null where there is none before."""
    rows = [version_figures(own) for own in versions]
    for row, before in zip(rows, [*rows[1:], dict.fromkeys(_FIGURES)], strict=False):
        row["changes"] = {
            name: None if None in (row[name], before[name]) else row[name] - before[name] for name in _FIGURES
        }
        row["new_template"] = "template" in before and row["template"] != before["template"]
    return rows


_FIGURES = ("jobs", "set_aside", "groups", "predictions", "reliable", "estimates", "in_80_later")


def version_figures(own: Manifest) -> dict[str, Any]:
    """A version in a few numbers, with what its jobs are grouped by; None for what it does not have."""
    clean, made = own.report("clean"), (own.report("predict") or {}).get("facts", {})
    counted = ("jobs", "groups", "predictions", "estimates")
    return {
        "version": own.folder,
        "name": own.name,
        "made": instant(own.created_s),
        "newest_job": instant(own.data_newest_end_s),
        **{name: own.tables[name].rows if name in own.tables else None for name in counted},
        "set_aside": sum(one["rows"] for one in clean["set_aside"].values()) if clean else None,
        "reliable": made.get("predictions_ok"),
        "in_80_later": made.get("in_80_later"),
        "template": next((row["template"] for row in compared_templates(own) if row["is_chosen"]), None),
    }


def _last_run(output_dir: Path) -> dict[str, Any] | None:
    found = read_last_run(output_dir)
    if found is None:
        return None
    ended = None if found.ended_s is None else instant(int(found.ended_s))
    steps = [{"step": name} | asdict(one) for name, one in found.steps.items()]
    return asdict(found) | {"began": instant(int(found.began_s)), "ended": ended, "steps": steps}
