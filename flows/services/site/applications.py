"""The applications of a published version: jobs, processor-hours, reliability and advice, a row each.

Sums are of whole numbers, so that they do not depend on the number of threads.
"""

import math
from typing import Any

import duckdb

from pipeline.core.tables import GROUPS, JOBS, OBSERVATIONS, PREDICTIONS, SCALABILITY
from pipeline.publish import Manifest

_JOBS_SQL = """
SELECT application, count(*) AS n_jobs, count(*) FILTER (flag IS NULL) AS n_kept,
       sum(CAST(round(runtime_s * procs) AS HUGEINT)) FILTER (isfinite(runtime_s) AND runtime_s > 0) AS proc_s
FROM read_parquet($jobs) GROUP BY application"""

_RELIABLE_SQL = """
SELECT g.application, count(DISTINCT g.group_id) AS n_groups, coalesce(sum(o.n_jobs), 0) AS n_observed,
       coalesce(sum(o.n_jobs) FILTER (p.reliability = 'ok'), 0) AS n_reliable
FROM read_parquet($groups) g LEFT JOIN read_parquet($observations) o USING (group_id)
LEFT JOIN read_parquet($predictions) p ON p.group_id = o.group_id AND p.procs = o.procs GROUP BY g.application"""

_ADVICE_SQL = """
SELECT g.application, max_by(struct_pack(largest := s.largest_useful_procs, best := s.working_set_procs,
                                         reliability := s.reliability),
                             (g.n_jobs, g.group_id)) AS advice
FROM read_parquet($groups) g JOIN read_parquet($scalability) s USING (group_id) GROUP BY g.application"""


def application_rows(manifest: Manifest) -> list[dict[str, Any]]:
    """A row per application of the log, those with most processor-hours first; the name is None where it is unknown.

    `reliable_share`: of the kept jobs, those whose group has a prediction with reliability ok at their processors;
    None without kept jobs. `best_procs` and `largest_procs` are those of the largest group that scales; None: none.
    """
    jobs = _rows(manifest, _JOBS_SQL, "jobs", JOBS.name)
    reliable = _by_name(_rows(manifest, _RELIABLE_SQL, "groups", GROUPS.name, OBSERVATIONS.name, PREDICTIONS.name))
    advised = _by_name(_rows(manifest, _ADVICE_SQL, "groups", GROUPS.name, SCALABILITY.name))
    found = [_row(one, reliable.get(one["application"]), advised.get(one["application"])) for one in jobs]
    return sorted(found, key=lambda row: (-row["proc_hours"], row["name"] is None, row["name"] or ""))


def _row(jobs: dict[str, Any], reliable: dict[str, Any] | None, advised: dict[str, Any] | None) -> dict[str, Any]:
    n_observed = int(reliable["n_observed"]) if reliable else 0
    advice = advised["advice"] if advised else {}
    return {
        "name": jobs["application"],
        "n_jobs": jobs["n_jobs"],
        "n_kept": jobs["n_kept"],
        "proc_hours": int(jobs["proc_s"] or 0) / 3600,
        "n_groups": reliable["n_groups"] if reliable else 0,
        "reliable_share": int(reliable["n_reliable"]) / n_observed if reliable and n_observed else None,
        "best_procs": advice.get("best"),
        "largest_procs": _whole(advice.get("largest")),
        "advice_reliability": advice.get("reliability"),
    }


def _whole(count: float | None) -> int | None:
    return int(count) if count is not None and math.isfinite(count) else None


def _by_name(rows: list[dict[str, Any]]) -> dict[str | None, dict[str, Any]]:
    return {row["application"]: row for row in rows}


def _rows(manifest: Manifest, sql: str, *tables: str) -> list[dict[str, Any]]:
    paths = {name: str(manifest.path(name)) for name in tables}
    with duckdb.connect(config={"autoinstall_known_extensions": "false"}) as database:
        cursor = database.execute(sql, paths)
        names = [column[0] for column in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
