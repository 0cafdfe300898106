"""What `walltime report --user` tells one user: the usual jobs, what they took, and what to ask for instead."""

from typing import Any

import duckdb

from flows.services.query.answers import answers, state_of
from pipeline.errors import InputError, printable
from pipeline.publish import Manifest
from pipeline.tables import JOBS

KINDS = 20
_SQL = """
SELECT application, queue, procs, requested_s, count(*) AS n_jobs, sum(procs * runtime_s) / 3600 AS proc_hours,
       median(runtime_s) AS runtime_s_median, count(*) FILTER (runtime_s >= requested_s) AS n_at_limit,
       any_value(user) AS user, any_value(account) AS account, any_value(job_name) AS job_name
FROM read_parquet($jobs) WHERE coalesce(user, account) = $user AND runtime_s > 0 AND flag IS NULL
GROUP BY application, queue, procs, requested_s ORDER BY proc_hours DESC, n_jobs DESC, 1, 2, 3, 4
LIMIT $most"""


def user_jobs(manifest: Manifest, user: str) -> dict[str, Any]:
    """The KINDS of jobs of a user, or of an account where the log knows no user, with most processor-hours.

    `ask_s` is the 95% quantile of the next such job, s, as `walltime query` answers it, and `expected_s` its median.
    InputError where no kept job is the user's.
    """
    values = {"jobs": str(manifest.path(JOBS.name)), "user": user, "most": KINDS}
    with duckdb.connect(config={"autoinstall_known_extensions": "false"}) as database:
        cursor = database.execute(_SQL, values)
        names = [column[0] for column in cursor.description or ()]
        rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    if not rows:
        raise InputError("--user", f"no kept job of {printable(user, 60)}", "a user, or an account, of the table jobs")
    for row, found in zip(rows, answers(state_of(manifest, len(rows)), rows), strict=True):
        row |= {"expected_s": found["runtime_s_q50"], "ask_s": found["runtime_s_q95"]}
    return {"user": user, "site": manifest.site, "version": manifest.folder, "kinds": rows}
