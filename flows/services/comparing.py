"""Groups and fits of two versions beside one another, and their errors on the jobs that came after both.

A replay of the same later jobs says what slowdown the estimates of each would have given. Every later job is planned
with what a version's State says from what it knew at its own end. A night of newer knowledge does not help it, so that
the two versions are compared, and not what came after them. The jobs before are replayed with their requests and are
not scored: a queue that began a week before the scored jobs was not yet like the real one.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from flows.services.job_answers import LoadedState, state_of
from flows.services.published.browse import queried_rows
from flows.services.quantities import instant
from flows.services.site_facts import fits_by_law_and_status, version_figures
from flows.services.studies import machine_size
from pipeline.arrays import Floats, category_codes, floats
from pipeline.errors import InputError
from pipeline.estimate.history import history
from pipeline.estimate.score import N_QUANTILES
from pipeline.estimate.state import estimate
from pipeline.evaluate.later_scores import estimate_figures, later_jobs, prediction_figures
from pipeline.publish import Manifest, read_version
from pipeline.publish.versions import stored_versions
from pipeline.schedule.engine import Policy
from pipeline.schedule.verdict import by_case
from pipeline.schedule.what_if import TODAY, Case, Estimates, Subject, what_if
from pipeline.schedule.workload import Convention, Shakes, has_waits, workload_of_jobs
from pipeline.storage import read_table
from pipeline.tables import GROUPS, JOBS

CASE = Case(Policy.EASY_SJBF, Estimates.SOFT_10)
FIGURES = ("slowdown_mean", "slowdown_change", "wait_mean_s")


def compare_versions(
    output_dir: Path, first: str | None, second: str | None, shakes: Shakes | None = None, procs: int | None = None,
    seed: int = 0,
) -> dict[str, Any]:  # fmt: skip
    """Two versions in plain values: groups, fits, and the errors of both on the same later jobs.

    Without a name `second` is the published version, and `first` the version that was published before it.
    Later jobs are kept ones of the version on disk whose log ends last, submitted after all that the two versions know.
    `seed` is that of the bootstrap behind the verdict. With `shakes` also the slowdowns that the estimates of both
    would have given on a machine of `procs` processors (None: those that are known), with the jobs set aside.
    """
    other = read_version(output_dir, name=second)
    one = read_version(output_dir, name=first or _before(other))
    pair = [one, other]
    states = [state_of(manifest) for manifest in pair]
    ends = [*(loaded.state.as_of_s for loaded in states), *(own.data_newest_end_s or 0 for own in pair)]
    after_s = float(max(ends))
    # The version on disk whose jobs end last.
    known = [one.manifest for one in stored_versions(output_dir) if one.manifest is not None]
    source = max(known or pair, key=lambda own: (own.data_newest_end_s or 0, own.folder))
    every = read_table(source.path(JOBS.name), JOBS)
    jobs = later_jobs(every, after_s)
    ids = [set(read_table(own.path(GROUPS.name), GROUPS).column("group_id").to_pylist()) for own in pair]
    return {
        "versions": [version_figures(manifest) for manifest in pair],
        "groups": {"each": [len(one) for one in ids], "in_both": len(ids[0] & ids[1])},
        "fits": _fits(pair),
        "after": instant(int(after_s)),
        "jobs_from": source.folder,
        "later_jobs": jobs.num_rows,
        "predictions": prediction_figures(pair, jobs, states[0].state.site["timezone"], seed),
        "estimates": estimate_figures([loaded.state for loaded in states], jobs, seed),
        "replay": shakes and _replayed(states, source, every, after_s, shakes, procs),
    }


def _before(version: Manifest) -> str:
    found = next((entry.folder for entry in version.previous if not entry.is_withdrawn), None)
    if found is None:
        do = "compare again after the next run, or name two versions of `walltime versions list`"
        raise InputError("versions compare", f"no version published before {version.folder}", "one on disk", do)
    return found


def _fits(pair: list[Manifest]) -> dict[str, Any]:
    """Groups by law and status of the chosen fit, and how many groups of both versions have another law."""
    sql = "SELECT group_id, law FROM fits WHERE is_chosen"
    laws = [{row["group_id"]: row["law"] for row in queried_rows(own, sql)} for own in pair]
    both = laws[0].keys() & laws[1].keys()
    other = sum(laws[0][group] != laws[1][group] for group in both)
    return {"each": [fits_by_law_and_status(own) for own in pair], "in_both": len(both), "other_law": other}


def _replayed(
    states: Sequence[LoadedState], source: Manifest, jobs: pa.Table, after_s: float, shakes: Shakes, procs: int | None
) -> dict[str, Any]:
    """Medians and quartiles over shaken replays under EASY-SJBF with each version's estimates, and EASY with requests.

    `jobs`: JOBS of `source`, of which those submitted after `after_s` are scored. InputError where the size of the
    machine is unknown, or no job has a request.
    """
    header = (source.report("ingest") or {}).get("facts", {}).get("max_procs")
    site = source.settings.get("site", {})
    capacity, capacity_from = machine_size(procs, site.get("max_procs"), header, "--replay")
    later = np.flatnonzero(floats(jobs, "submit_s") > after_s)
    about = {"policy": str(CASE.name), "capacity": capacity, "capacity_from": capacity_from, "shakes": shakes.n}
    if not later.size:
        return {"jobs": 0, **about, "today": {}, "each": [{} for _ in states]}
    every = "silent_request" in source.settings.get("clean", {}).get("flags_off", ())
    work = workload_of_jobs(jobs, capacity, own_rows=history(jobs).row, counts_every_request=every)
    users = category_codes(jobs, "user")[1]
    each = list[dict[str, float]]()
    today: Mapping[str, Any] = {}
    for loaded in states:
        # What the version says of the later jobs; of the others nothing, so that their requests stand.
        past = history(jobs.take(later), loaded.state.site["timezone"])
        quantiles_s: Floats = np.full((jobs.num_rows, N_QUANTILES), np.nan)
        quantiles_s[later[past.row]] = estimate(loaded.state, past.as_submitted())[:, :N_QUANTILES]
        subject = Subject("", work, quantiles_s, users, Convention.NATURAL, since_s=after_s)
        replayed = by_case(what_if(subject, [CASE], shakes))
        if not replayed:
            expected = "later jobs with a runtime after the first 1% of the replay"
            raise InputError("--replay", "no job to score", expected)
        today, own = (replayed[case.name]["all"][None] for case in (TODAY, CASE))
        changes = {f"slowdown_change_{name}": own[name]["slowdown_change"] for name in ("q25", "q75")}
        each.append({name: own["median"][name] for name in FIGURES} | changes)
    whole = today["median"]
    return {
        "jobs": int(whole["n_jobs"]), **about, "has_waits": has_waits(jobs),
        "today": {name: whole[name] for name in FIGURES}, "each": each,
    }  # fmt: skip
