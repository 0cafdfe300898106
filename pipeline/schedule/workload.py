"""The jobs of a log as a replay takes them, under one of two conventions."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
import pyarrow as pa

from pipeline.arrays import Array, Bools, Ints, category_codes, floats
from pipeline.errors import InputError
from pipeline.silent_requests import says_nothing, silent_requests

LEAST_REQUESTS = 0.5
"""A log in which a smaller share of the jobs has a request says nothing of a scheduler that plans with requests."""

MOST = 2.0**40
"""Larger times (34,000 years) and sizes are errors in the log, and count as this."""

FEW_WAITS = 0.01
"""A log where a smaller share of the jobs waited has submits that are starts: of the archive's logs none that states
waits has fewer than half."""


class Convention(StrEnum):
    """How a log's errors become jobs that can be scheduled."""

    NATURAL = "natural"
    """Runtimes are cut at the request; jobs without a positive runtime or size are left out; a job without a request
    has the largest request of the log, or its own runtime where that is longer, so that it is never cut. A request over
    four times the longest run counts as none, where any other is left."""
    PYSS = "pyss"
    """As the simulators pyss and predictsim: of runtime and request the longer is the request and the shorter the
    runtime; a job without a positive runtime or allocated processors stays, with a runtime and a request of 1 s."""


@dataclass(frozen=True, slots=True)
class Workload:
    """Jobs in order of submit, one value a job; times in whole s."""

    row: Ints
    """The job's place in the arrays or the table that it was made from."""
    submit_s: Ints
    run_s: Ints
    """At least 1 s and at most the request."""
    request_s: Ints
    procs: Ints
    """Processors, or nodes where jobs have nodes to themselves; at least 1, at most the capacity."""
    user: Ints
    """A code from 0; -1: unknown."""
    capacity: int
    counts: Mapping[str, int]
    """Numbers of jobs that were left out or changed, by reason; only those above 0."""

    def __len__(self) -> int:
        return len(self.submit_s)

    def take(self, places: Ints) -> "Workload":
        """The jobs at these places, in this order; the caller sees to it that submits ascend."""
        arrays = {
            name: getattr(self, name)[places] for name in ("row", "submit_s", "run_s", "request_s", "procs", "user")
        }
        return replace(self, **arrays)


def workload(
    submit_s: Array,
    runtime_s: Array,
    requested_s: Array,
    requested_procs: Array,
    allocated_procs: Array,
    user: Array,
    capacity: int,
    convention: Convention = Convention.NATURAL,
    procs_per_node: int | None = None,
    is_silent: Bools | None = None,
) -> Workload:
    """The jobs of a log from its values, one a job.

    Parameters
    ----------
    submit_s, runtime_s, requested_s, requested_procs, allocated_procs
        (jobs,); NaN or not positive: unknown (a submit may be 0 or negative). Fractions
        of seconds: see Convention. A job's size is what was requested, else what was allocated; a size above the
        capacity is cut to it, and counted. Jobs without a submit are left out.
    user
        (jobs,) codes from 0; -1: unknown.
    capacity
        The machine's processors.
    procs_per_node
        None: jobs share nodes. Else jobs take whole nodes of so many processors, and sizes and capacity are in nodes.
    is_silent
        (jobs,) whether a request says nothing and counts as none, where any other is left. None: each one counts.

    Returns
    -------
    Workload
        Ties of submit keep the order given.

    Raises
    ------
    InputError
        No job has a request, or under NATURAL fewer than half of them; or the machine has no processor or node.
    """
    known = (np.asarray(values, np.float64) for values in (runtime_s, requested_s, requested_procs, allocated_procs))
    run, request, asked, held = (np.where(values > 0, np.minimum(values, MOST), -1.0) for values in known)
    n_requests = int((request > 0).sum())
    if n_requests < max(LEAST_REQUESTS * len(request) if convention is Convention.NATURAL else 1, 1):
        found = f"{n_requests:,} of {len(request):,} jobs with a requested runtime"
        expected = "requests of most jobs, because a backfilling scheduler plans with them"
        raise InputError("the log", found, expected, "replay a log that states them")
    if convention is Convention.PYSS:
        is_valid, kept = (run > 0) & (held > 0), np.ones(len(run), bool)
        size = np.where(is_valid & (asked > 0), asked, np.maximum(held, 1.0))
        run, request = np.trunc(run), np.trunc(request)
        counts = {"made_1_s": (~is_valid).sum(), "run_and_request_swapped": (is_valid & (run > request)).sum()}
        longer, shorter = np.maximum(run, request), np.minimum(run, request)
        run, request = (np.where(is_valid, np.maximum(values, 1.0), 1.0) for values in (shorter, longer))
    else:
        if is_silent is None or not (request > 0)[~is_silent].any():
            is_silent = np.zeros(len(run), bool)
        size = np.where(asked > 0, asked, held)
        kept = (run > 0) & (size > 0)
        # Whole seconds, rounded up: neither a runtime nor a request becomes 0.
        run, stated = np.ceil(run), np.ceil(np.where(is_silent, -1.0, request))
        request = np.where(stated > 0, stated, np.maximum(stated.max(), run))
        counts = {
            "no_runtime": (run <= 0).sum(),
            "no_procs": ((run > 0) & (size <= 0)).sum(),
            "no_request": (kept & (stated <= 0) & ~is_silent).sum(),
            "cut_at_request": (kept & (run > request)).sum(),
            "silent_request": (kept & is_silent).sum(),
        }
        run = np.minimum(run, request)
    if procs_per_node is not None:
        size, capacity = np.ceil(size / procs_per_node), capacity // procs_per_node
    if capacity < 1:
        raise InputError("the machine", f"a capacity of {capacity}", "at least 1 processor or node")
    submit = np.asarray(submit_s, np.float64)
    has_submit = np.abs(submit) < MOST
    kept = kept & has_submit
    counts |= {"no_submit": (~has_submit).sum(), "larger_than_machine": (size[kept] > capacity).sum()}
    row = np.flatnonzero(kept)
    row = row[np.argsort(submit[row], kind="stable")]
    return Workload(
        row=row,
        submit_s=submit[row].astype(np.int64),
        run_s=run[row].astype(np.int64),
        request_s=request[row].astype(np.int64),
        procs=np.clip(size[row], 1, capacity).astype(np.int64),
        user=np.asarray(user, np.int64)[row],
        capacity=capacity,
        counts={reason: int(count) for reason, count in counts.items() if count},
    )


def workload_of_jobs(
    jobs: pa.Table,
    capacity: int,
    convention: Convention = Convention.NATURAL,
    procs_per_node: int | None = None,
    own_rows: Ints | None = None,
    *,
    counts_every_request: bool = False,
) -> Workload:
    """The workload of a JOBS table; `row` is the job's row there, ties of submit are in order of source line.

    `own_rows`: rows that are jobs of their own. Under NATURAL others, as duplicates, are left out and counted, and a
    request over four times the longest run counts as none, unless `counts_every_request`.
    """
    order = np.argsort(floats(jobs, "source_line"), kind="stable")
    # A default of minutes says nothing of a runtime of seconds, and yet lets a scheduler fill a gap.
    looks = convention is Convention.NATURAL and not counts_every_request
    endless = [one for one in silent_requests(jobs) if one.is_endless] if looks else []
    names = ("submit_s", "runtime_s", "requested_s", "requested_procs", "procs")
    submit_s, runtime_s, requested_s, requested_procs, procs = (floats(jobs, name)[order] for name in names)
    users, is_silent = category_codes(jobs, "user")[0][order], says_nothing(jobs, endless)[order]
    made = workload(
        submit_s, runtime_s, requested_s, requested_procs, procs, users, capacity, convention, procs_per_node, is_silent
    )
    made = replace(made, row=order[made.row])
    if own_rows is None or convention is Convention.PYSS:
        return made
    own = made.take(np.flatnonzero(np.isin(made.row, own_rows)))
    n_left_out = len(made) - len(own)
    return replace(own, counts={**own.counts, "no_job_of_its_own": n_left_out}) if n_left_out else own


def has_waits(jobs: pa.Table) -> bool:
    """Whether the log states waits: LLNL-Atlas, for one, does not, and its submits are starts."""
    waited = floats(jobs, "start_s") > floats(jobs, "submit_s")
    return bool(waited.sum() > FEW_WAITS * len(waited))


@dataclass(frozen=True, slots=True)
class Shakes:
    """How often and how far arrivals are shaken; without shakes the log is replayed once as it is."""

    n: int = 20
    seed: int = 1
    jitter_s: int = 600
    """Each submit moves by at most this, in either direction."""


def shaken(work: Workload, shakes: Shakes, nth: int) -> tuple[Workload, Ints]:
    """The nth shake (from 0) of a workload, and the place in `work` of each of its jobs.

    Submits move independently and uniformly, in whole seconds. A user's jobs keep their order, so that sessions stay
    sessions: with 600 s, submits more than 20 min apart cannot pass one another in any case. The same seed and number
    give the same arrivals, whatever is replayed with them.
    """
    random = np.random.default_rng((shakes.seed, nth))
    moved_s = work.submit_s + random.integers(-shakes.jitter_s, shakes.jitter_s, len(work), endpoint=True)
    # Each job of an unknown user counts as a user's only one.
    user = np.where(work.user < 0, work.user.max(initial=-1) + 1 + np.arange(len(work)), work.user)
    submit_s = np.empty_like(work.submit_s)
    submit_s[np.argsort(user, kind="stable")] = moved_s[np.lexsort((moved_s, user))]
    places = np.argsort(submit_s, kind="stable")
    return replace(work.take(places), submit_s=submit_s[places]), places
