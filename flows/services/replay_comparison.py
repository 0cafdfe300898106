"""The slowdown that the estimates of two versions would have given, by replays of the same later jobs.

Every later job is planned with what a version's State says from what it knew at its own end. A night of newer knowledge
does not help it, so that the two versions are compared, and not what came after them. The jobs before are replayed with
their requests and are not scored: a queue that began a week before the scored jobs was not yet like the real one.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from flows.services.query.answers import LoadedState
from flows.services.replaying import machine_size
from pipeline.arrays import Floats, Ints, category_codes, floats
from pipeline.errors import InputError
from pipeline.estimate.history import history
from pipeline.estimate.walltime import estimate
from pipeline.publish import Manifest
from pipeline.schedule.engine import Policy
from pipeline.schedule.what_if import METHODS, Case, Estimates, Subject, what_if
from pipeline.schedule.workload import Convention, Shakes, has_waits, workload_of_jobs

CASE = Case(Policy.EASY_SJBF, Estimates.WALLTIME)
FIGURES = ("slowdown_mean", "slowdown_change", "wait_mean_s")


def replayed(
    states: Sequence[LoadedState], source: Manifest, jobs: pa.Table, after_s: float, procs: int | None, shakes: Shakes
) -> dict[str, Any]:
    """Medians and quartiles over shaken replays under EASY-SJBF with each version's estimates, and EASY with requests.

    `jobs`: JOBS of `source`, of which those submitted after `after_s` are scored. `procs`: the machine's processors;
    None: those of the settings or of the log's header. InputError where neither has them, or no job has a request.
    """
    header = (source.report("ingest") or {}).get("facts", {}).get("max_procs")
    capacity, capacity_from = machine_size(procs, source.settings.get("site", {}).get("max_procs"), header, "--replay")
    later = np.flatnonzero(floats(jobs, "submit_s") > after_s)
    about = {"policy": str(CASE.name), "capacity": capacity, "capacity_from": capacity_from, "shakes": shakes.n}
    if not later.size:
        return {"jobs": 0, **about, "today": {}, "each": [{} for _ in states]}
    work = workload_of_jobs(jobs, capacity, own_rows=history(jobs).row)
    users = category_codes(jobs, "user")[1]
    rows = []
    for loaded in states:
        quantiles_s = {METHODS[CASE.estimates]: _estimates(loaded, jobs, later)}
        subject = Subject("", work, quantiles_s, users, Convention.NATURAL, since_s=after_s)
        rows.append(_figures(subject, shakes))
    whole = rows[0]["today"]
    return {
        "jobs": int(whole["n_jobs"]), **about, "has_waits": has_waits(jobs),
        "today": {name: whole[name] for name in FIGURES}, "each": [row["version"] for row in rows],
    }  # fmt: skip


def _estimates(loaded: LoadedState, jobs: pa.Table, later: Ints) -> Floats:
    """(rows, 6) quantiles, s: what a version says of the later jobs; NaN, for which the request stands, elsewhere."""
    past = history(jobs.take(later), loaded.state.site["timezone"])
    answered = estimate(loaded.state, past.as_submitted(), loaded.settings)
    quantiles_s: Floats = np.full((jobs.num_rows, answered.shape[1]), np.nan)
    quantiles_s[later[past.row]] = answered
    return quantiles_s


def _figures(subject: Subject, shakes: Shakes) -> dict[str, Any]:
    """The rows of all scored jobs: EASY with requests, and the version's estimates with quartiles of their change."""
    rows = [row for row in what_if(subject, [CASE], shakes).to_pylist() if row["part"] == "all"]
    if not rows:
        raise InputError("--replay", "no job to score", "later jobs with a runtime after the first 1% of the replay")
    own = {row["statistic"]: row for row in rows if row["estimates"] == CASE.estimates}
    today = {row["statistic"]: row for row in rows if row["estimates"] == Estimates.REQUEST}
    middle = "median" if "median" in own else "single"
    change = {name: own.get(name, own[middle])["slowdown_change"] for name in ("q25", "q75")}
    version = {name: own[middle][name] for name in FIGURES} | {f"slowdown_change_{q}": v for q, v in change.items()}
    return {"today": today[middle], "version": version}
