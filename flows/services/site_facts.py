"""The summary of a finished run, and what the page of a site shows: applications, cleaning, nights and the last run."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flows.services.limits import limit_facts
from flows.services.published.advice import advice_of_groups, cost_of_run
from flows.services.published.browse import queried_rows
from flows.services.published.published_folder import (
    compared_templates,
    rows_of_groups,
    template_sentences,
    unreliability_note,
)
from flows.services.published.waste_rows import waste_rows
from flows.services.published.worst_estimates import errors_of_version, promise_by_week
from flows.services.quantities import instant
from flows.services.run.run_record import read_last_run
from flows.services.when import read_starts
from pipeline.errors import InputError
from pipeline.evaluate.later_scores import weekly_coverage
from pipeline.publish import Manifest
from pipeline.publish.checks import blocked_versions
from pipeline.publish.versions import stored_versions
from pipeline.report import Report, Tally, total
from pipeline.schema import Flag
from pipeline.storage import read_table
from pipeline.tables import FITS, GROUPS, JOBS, OBSERVATIONS, PATTERNS, PREDICTIONS, WASTE

SAMPLE_ROWS = 7


def summarize_version(manifest: Manifest) -> dict[str, Any]:
    """A version in numbers: lines, jobs, set aside, groups, fits, predictions, estimates, a sample of predictions."""
    reports = {plain["stage"]: Report.from_dict(plain) for plain in manifest.reports}
    fits = read_table(manifest.path(FITS.name), FITS)
    ingest, predict = reports["ingest"], reports["predict"]
    return {
        "run_id": manifest.run_id,
        "site": manifest.site,
        "logs": [log.name for log in manifest.logs],
        "lines_read": ingest.facts.get("lines", ingest.seen.rows),
        "no_jobs": {reason: tally.rows for reason, tally in ingest.set_aside.items() if tally.rows},
        "unreadable": manifest.tables["unreadable"].rows,
        "jobs": manifest.tables["jobs"].rows,
        "kept": _hours(reports["clean"].kept),
        "set_aside": {reason: _hours(tally) for reason, tally in reports["clean"].set_aside.items()},
        "set_aside_total": _hours(total(reports["clean"].set_aside.values())),
        "groups": manifest.tables["groups"].rows,
        "series_3_sizes": len(fits.filter(pc.greater_equal(fits.column("n_points"), 3)).column("group_id").unique()),
        "fits": fits_by_law_and_status(fits),
        "patterns": queried_rows(manifest, _PATTERNS_SQL, PATTERNS.name, GROUPS.name),
        "predictions": manifest.tables["predictions"].rows,
        "predictions_ok": predict.facts["predictions_ok"],
        "predictions_ok_jobs": queried_rows(manifest, _RELIABLE_SQL, GROUPS.name, OBSERVATIONS.name, PREDICTIONS.name)[
            0
        ]["n"],
        **{f"predictions_{name}": predict.facts[name] for name in ("in_80_later", "in_95_later")},
        "reliability": {
            name.removeprefix("predictions_"): n for name, n in predict.facts.items() if name.startswith("predictions_")
        },
        "estimates": manifest.tables["estimates"].rows,
        "sample": _sample(manifest, fits),
        "templates": compared_templates(manifest),
        "notes": [note for name, report in reports.items() if name != "templates" for note in report.notes],
        "tables": {name: str(manifest.place(name)) for name in manifest.tables},
    }


def _hours(tally: Tally) -> dict[str, float]:
    return {"jobs": tally.rows, "processor_hours": tally.proc_s / 3600}


def fits_by_law_and_status(fits: pa.Table) -> dict[str, dict[str, int]]:
    """How many groups a law answers for, by law and status."""
    chosen = fits.filter(fits.column("is_chosen"))
    pairs = zip(*(map(str, chosen.column(name).to_pylist()) for name in ("law", "status")), strict=True)
    counted: dict[str, dict[str, int]] = {}
    for (law, status), n_groups in sorted(Counter(pairs).items()):
        counted.setdefault(law, {})[status] = n_groups
    return counted


def _sample(manifest: Manifest, fits: pa.Table) -> dict[str, Any] | None:
    """A few predictions of one group: if possible a reliable one whose law scales, then the one with most sizes."""
    chosen = fits.filter(fits.column("is_chosen")).to_pylist()
    if not chosen:
        return None
    predictions = read_table(manifest.path(PREDICTIONS.name), PREDICTIONS)
    is_ok = pc.equal(predictions.column("reliability").cast(pa.string()), "ok")
    sound = set(predictions.filter(is_ok).column("group_id").to_pylist())

    def merit(row: dict[str, Any]) -> tuple[bool, bool, int, int, str]:
        return row["group_id"] in sound, row["law"] != "constant", row["n_points"], row["n_jobs"], row["group_id"]

    best = max(chosen, key=merit)
    group_id = best["group_id"]
    tables = (GROUPS, OBSERVATIONS, PREDICTIONS)
    own = {kind.name: rows_of_groups(manifest, kind, [group_id]).get(group_id, []) for kind in tables}
    observed = {row["procs"]: row for row in own[OBSERVATIONS.name]}
    every = own[PREDICTIONS.name]
    places = np.unique(np.linspace(0, len(every) - 1, min(SAMPLE_ROWS, len(every))).round().astype(int))
    rows = [every[place] for place in places]
    for row in rows:
        found = observed.get(row["procs"], {})
        row |= {"n_jobs": found.get("n_jobs", 0), "observed_s": found.get("runtime_s_median")}
    facts = {name: best[name] for name in ("law", "status", "t1_s", "avg_parallelism", "sigma", "n_points", "n_jobs")}
    group = {name: own[GROUPS.name][0][name] for name in ("label", "axis")}
    return {"group_id": group_id, **group, **facts, "predictions": rows}


LISTED = 2_000
"""Applications with advice; the others are only counted on the page."""

_PATTERNS_SQL = """
SELECT label, words FROM read_parquet($patterns) p JOIN read_parquet($groups) g USING (group_id)
WHERE status = 'found' ORDER BY log_odds DESC, group_id, pattern, step"""
"""The patterns found in series, highest odds first: the group's label and the advice."""

_RELIABLE = """
SELECT g.application, g.group_id, o.n_jobs, p.reliability = 'ok' AS is_ok
FROM read_parquet($groups) g LEFT JOIN read_parquet($observations) o USING (group_id)
LEFT JOIN read_parquet($predictions) p ON p.group_id = o.group_id AND p.procs = o.procs"""
"""The kept jobs of each group and count, and whether the prediction of their runtime is reliable."""

_RELIABLE_SQL = f"SELECT coalesce(sum(n_jobs) FILTER (is_ok), 0)::BIGINT AS n FROM ({_RELIABLE})"  # noqa: S608 # nosec B608

_APPLICATIONS_SQL = f"""
WITH of_jobs AS (
    SELECT application, count(*) AS n_jobs, count(*) FILTER (flag IS NULL) AS n_kept,
           sum(CAST(round(runtime_s * procs) AS HUGEINT)) FILTER (isfinite(runtime_s) AND runtime_s > 0
                 AND flag IS DISTINCT FROM 'impossible_times') AS proc_s
    FROM read_parquet($jobs) GROUP BY application),
of_groups AS (
    SELECT application, count(DISTINCT group_id) AS n_groups, sum(n_jobs) AS n_observed,
           coalesce(sum(n_jobs) FILTER (is_ok), 0) AS n_reliable
    FROM ({_RELIABLE}) GROUP BY application),
largest AS (
    SELECT application, max_by(group_id, (n_jobs, group_id)) AS group_id
    FROM read_parquet($groups) GROUP BY application)
SELECT j.application AS name, n_jobs, n_kept, coalesce(proc_s, 0) / 3600 AS proc_hours,
       coalesce(n_groups, 0) AS n_groups, CASE WHEN n_observed > 0 THEN n_reliable / n_observed END AS reliable_share,
       group_id
FROM of_jobs j LEFT JOIN of_groups g ON j.application IS NOT DISTINCT FROM g.application
LEFT JOIN largest l ON j.application IS NOT DISTINCT FROM l.application
ORDER BY proc_hours DESC, name IS NULL, name"""  # noqa: S608 # nosec B608 # constants

_USERS_SQL = """
SELECT coalesce(user, account) AS user, queue, count(*) AS n_jobs, count(*) FILTER (flag IS NULL) AS n_kept,
       sum(CAST(round(runtime_s * procs) AS HUGEINT)) FILTER (isfinite(runtime_s) AND runtime_s > 0
             AND flag IS DISTINCT FROM 'impossible_times') / 3600 AS proc_hours
FROM read_parquet($jobs) GROUP BY ALL ORDER BY proc_hours DESC NULLS LAST, 1, 2"""

_QUEUES_SQL = """
WITH in_time AS (
    SELECT * FROM read_parquet($jobs)
    WHERE flag IS DISTINCT FROM 'impossible_times' AND submit_s BETWEEN 0 AND 7258118400)
SELECT queue, count(*) AS n_jobs, sum(procs * runtime_s) FILTER (runtime_s > 0) / 3600 AS proc_hours,
       median(start_s - submit_s) AS wait_s, quantile_cont(start_s - submit_s, 0.9) AS wait_s_q90
FROM in_time WHERE submit_s > (SELECT max(submit_s) FROM in_time) - 28 * 86400
GROUP BY queue ORDER BY proc_hours DESC NULLS LAST, queue"""

_DAYS_SQL = """
WITH in_time AS (
    SELECT *, submit_s // 86400 AS submit_day, start_s // 86400 AS start_day, end_s // 86400 AS end_day
    FROM read_parquet($jobs)
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
    SELECT * FROM read_parquet($jobs)
    WHERE flag IS DISTINCT FROM 'impossible_times' AND end_s BETWEEN 0 AND 7258118400),
late AS (SELECT * FROM ended WHERE end_s > (SELECT max(end_s) FROM ended) - 7 * 86400),
named AS (UNPIVOT late ON application, user, account, queue INTO NAME kind VALUE name)
SELECT kind, name, count(*) AS n_jobs, count(*) FILTER (state IN ('FAILED', 'NODE_FAIL', 'BOOT_FAIL')) AS n_failed,
       count(*) FILTER (state = 'TIMEOUT') AS n_timeout, count(*) FILTER (state = 'OUT_OF_MEMORY') AS n_memory,
       count(*) FILTER (state = 'CANCELLED') AS n_cancelled,
       coalesce(sum(procs * runtime_s) FILTER (state IN ('FAILED', 'NODE_FAIL', 'BOOT_FAIL', 'TIMEOUT',
                'OUT_OF_MEMORY', 'CANCELLED')), 0) / 3600 AS proc_hours
FROM named GROUP BY kind, name HAVING n_failed + n_timeout + n_memory > 0
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
    if not errors.num_rows:
        return {"promise": [], "worst": []}
    submit_s = errors.column("submit_s")
    late = errors.filter(pc.greater(submit_s, pc.max(submit_s).as_py() - WORST_DAYS * 86_400)).slice(0, WORST_SHOWN)
    return {"promise": promise_by_week(errors), "worst": late.to_pylist()}


def application_rows(manifest: Manifest) -> list[dict[str, Any]]:
    """A row per application of the log, those with most processor-hours first; the name is None where it is unknown.

    `reliable_share`: of the kept jobs, those whose group has a prediction with reliability ok at their processors;
    None without kept jobs. `advice` and `best_procs` are what `walltime scaling advise` answers for the largest
    group of the application; they are given for the first LISTED rows and None elsewhere.
    """
    found = queried_rows(manifest, _APPLICATIONS_SQL, JOBS.name, GROUPS.name, OBSERVATIONS.name, PREDICTIONS.name)
    if WASTE.name in manifest.tables:
        # One query for one number: the hours of an application are those that its waste is a part of.
        rows = read_table(manifest.path(WASTE.name), WASTE).to_pylist()
        hours = {row["name"]: row["proc_hours"] for row in rows if row["kind"] == "application"}
        found = [row | {"proc_hours": hours.get(row["name"], 0.0)} for row in found]
        found.sort(key=lambda row: (-row["proc_hours"], row["name"] is None, row["name"] or ""))
    ids = [row.pop("group_id") for row in found]
    ids[LISTED:] = [None] * len(ids[LISTED:])
    advised = advice_of_groups(manifest, [one for one in ids if one is not None], cost_of_run(manifest))
    return [row | _advice(advised.get(group_id)) for row, group_id in zip(found, ids, strict=True)]


def _advice(group: dict[str, Any] | None) -> dict[str, Any]:
    """The first sentence of a group's advice, the recommended count, and its reliability."""
    best = next(iter(group["choices"]), None) if group else None
    return {
        "advice": next(iter(group["answer"]), None) if group else None,
        **{f"best_{name}": best[name] if best else None for name in ("procs", "why", "reliability")},
    }


NIGHTS = 30
"""Published versions that are listed, newest first."""


def site_facts(
    output_dir: Path, manifest: Manifest, carbon: str | None = None, *, users: bool = False
) -> dict[str, Any]:
    """The page's content in plain values, for the published version or one of a date; see `waste_rows` for options."""
    versions = _published_by(output_dir, manifest)
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
        "user_queues": queried_rows(manifest, _USERS_SQL, JOBS.name)
        if not any(row["name"] for row in applications)
        else [],
        "queues": queried_rows(manifest, _QUEUES_SQL, JOBS.name),
        "starts": read_starts(output_dir).to_pylist(),
        "days": queried_rows(manifest, _DAYS_SQL, JOBS.name, size=manifest.settings.get("site", {}).get("max_procs")),
        "failures": queried_rows(manifest, _FAILURES_SQL, JOBS.name),
        "mode": manifest.settings.get("export", {}).get("mode", "dry_run"),
        **estimate_facts(manifest),
        "waste": waste_rows(manifest, applications, carbon, users=users),
        "silent_requests": (manifest.report("waste") or {}).get("notes", []),
        "cleaning": _cleaning(manifest),
        "coverage": weekly_coverage(output_dir, manifest, versions),
        "limits": limit_facts(manifest),
        "nights": _nights(versions[:NIGHTS]),
        "blocked": [{"made": instant(made_s), "run_id": run} for made_s, run in reversed(blocked_versions(output_dir))],
        "last_run": _last_run(output_dir),
    }


def _published_by(output_dir: Path, manifest: Manifest) -> list[Manifest]:
    """The version and those published before it that are still whole on disk, newest first; reruns are none of them."""
    found = [one.manifest for one in stored_versions(output_dir) if one.place is not None and one.manifest is not None]
    earlier = [own for own in found if own.created_s <= manifest.created_s and own.folder != manifest.folder]
    return [manifest, *sorted(earlier, key=lambda own: (-own.created_s, own.folder))]


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
    rows = [_night(own) for own in versions]
    for row, before in zip(rows, [*rows[1:], None], strict=False):
        row["changes"] = {
            name: None if before is None or None in (row[name], before[name]) else row[name] - before[name]
            for name in _FIGURES
        }
        row["new_template"] = before is not None and row["template"] != before["template"]
    return rows


_FIGURES = ("jobs", "set_aside", "groups", "predictions", "reliable", "estimates", "in_80_later")


def _night(own: Manifest) -> dict[str, Any]:
    clean, made = own.report("clean"), (own.report("predict") or {}).get("facts", {})
    chosen = next((row["template"] for row in compared_templates(own) if row["is_chosen"]), None)
    rows = {name: own.tables[name].rows if name in own.tables else None for name in ("jobs", "groups", "predictions")}
    return {
        "version": own.folder,
        "made": instant(own.created_s),
        "newest_job": instant(own.data_newest_end_s),
        **rows,
        "estimates": own.tables["estimates"].rows if "estimates" in own.tables else None,
        "set_aside": sum(one["rows"] for one in clean["set_aside"].values()) if clean else None,
        "reliable": made.get("predictions_ok"),
        "in_80_later": made.get("in_80_later"),
        "template": chosen,
    }


def _last_run(output_dir: Path) -> dict[str, Any] | None:
    found = read_last_run(output_dir)
    if found is None:
        return None
    ended = None if found.ended_s is None else instant(int(found.ended_s))
    steps = [{"step": name, "seconds": one.seconds, "rows": one.rows} for name, one in found.steps.items()]
    return {"state": found.state, "reason": found.reason, "began": instant(int(found.began_s)), "ended": ended,
            "exit_code": found.exit_code, "steps": steps}  # fmt: skip
