"""The applications of a published version: jobs, processor-hours, reliability and advice, a row each.

Sums are of whole numbers, so that they do not depend on the number of threads.
"""

from typing import Any

import duckdb

from flows.services.published.advice import advice_of_groups, cost_of_run
from pipeline.core.tables import GROUPS, JOBS, OBSERVATIONS, PREDICTIONS
from pipeline.publish import Manifest

LISTED = 2_000
"""Applications with advice; the others are only counted on the page."""

_JOBS_SQL = """
SELECT application, count(*) AS n_jobs, count(*) FILTER (flag IS NULL) AS n_kept,
       sum(CAST(round(runtime_s * procs) AS HUGEINT)) FILTER (isfinite(runtime_s) AND runtime_s > 0) AS proc_s
FROM read_parquet($jobs) GROUP BY application"""

_RELIABLE_SQL = """
SELECT g.application, count(DISTINCT g.group_id) AS n_groups, coalesce(sum(o.n_jobs), 0) AS n_observed,
       coalesce(sum(o.n_jobs) FILTER (p.reliability = 'ok'), 0) AS n_reliable
FROM read_parquet($groups) g LEFT JOIN read_parquet($observations) o USING (group_id)
LEFT JOIN read_parquet($predictions) p ON p.group_id = o.group_id AND p.procs = o.procs GROUP BY g.application"""

_LARGEST_SQL = """
SELECT application, max_by(group_id, (n_jobs, group_id)) AS group_id FROM read_parquet($groups) GROUP BY application"""


def application_rows(manifest: Manifest) -> list[dict[str, Any]]:
    """A row per application of the log, those with most processor-hours first; the name is None where it is unknown.

    `reliable_share`: of the kept jobs, those whose group has a prediction with reliability ok at their processors;
    None without kept jobs. `advice` and `best_procs` are what `walltime advice` answers for the application's largest
    group; they are given for the first LISTED rows and None elsewhere.
    """
    reliable = _by_name(_rows(manifest, _RELIABLE_SQL, "groups", GROUPS.name, OBSERVATIONS.name, PREDICTIONS.name))
    found = [_row(one, reliable.get(one["application"])) for one in _rows(manifest, _JOBS_SQL, "jobs", JOBS.name)]
    found.sort(key=lambda row: (-row["proc_hours"], row["name"] is None, row["name"] or ""))
    largest = _by_name(_rows(manifest, _LARGEST_SQL, "groups", GROUPS.name))
    ids = {row["name"]: largest[row["name"]]["group_id"] for row in found[:LISTED] if row["name"] in largest}
    advised = advice_of_groups(manifest, list(ids.values()), cost_of_run(manifest))
    return [row | _advice(advised.get(ids.get(row["name"], ""))) for row in found]


def _row(jobs: dict[str, Any], reliable: dict[str, Any] | None) -> dict[str, Any]:
    n_observed = int(reliable["n_observed"]) if reliable else 0
    return {
        "name": jobs["application"],
        "n_jobs": jobs["n_jobs"],
        "n_kept": jobs["n_kept"],
        "proc_hours": int(jobs["proc_s"] or 0) / 3600,
        "n_groups": reliable["n_groups"] if reliable else 0,
        "reliable_share": int(reliable["n_reliable"]) / n_observed if reliable and n_observed else None,
    }


def _advice(group: dict[str, Any] | None) -> dict[str, Any]:
    """The first sentence of a group's advice, the recommended count, and its reliability."""
    sentence = next(iter(group["answer"]), None) if group else None
    best = next(iter(group["choices"]), None) if group else None
    return {
        "advice": sentence,
        "best_procs": best["procs"] if best else None,
        "best_reliability": best["reliability"] if best else None,
    }


def _by_name(rows: list[dict[str, Any]]) -> dict[str | None, dict[str, Any]]:
    return {row["application"]: row for row in rows}


def _rows(manifest: Manifest, sql: str, *tables: str) -> list[dict[str, Any]]:
    paths = {name: str(manifest.path(name)) for name in tables}
    with duckdb.connect(config={"autoinstall_known_extensions": "false"}) as database:
        cursor = database.execute(sql, paths)
        names = [column[0] for column in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
