"""What a limit may rest on: a submitter's own ended jobs of one kind, and the longest of the latest of them.

A kind is a template's values. The application and the size are part of it, and any request may be; where a log's names
do not tell applications, the request is too. GPUs always are. Memory and QOS are where the submit tells them: a
submit that does not is answered by the kind without them.
"""

from typing import NamedTuple

import numpy as np

from pipeline.arrays import Array, Bools, Floats, Ints
from pipeline.estimate.history import History
from pipeline.estimate.jobs import MOST_NEW, NAMED_JOBS, mixed

DAY_S = 86_400.0

OPTIONAL = ("memory_class_kib", "qos")
"""Columns that a submit may leave open, to a default that the plug-in does not know."""

BASES = (
    ("who", "what", "queue", "requested_s", "procs", "gpus", "gpu_type"),
    ("who", "what", "procs", "gpus", "gpu_type"),
    ("who", "queue", "requested_s", "procs", "gpus", "gpu_type"),
)
"""Columns of a kind before the optional ones. The last base is used where names do not tell applications, and there
alone."""

TEMPLATES = tuple(
    (*base, *more) for base in BASES for more in (OPTIONAL, OPTIONAL[:1], OPTIONAL[1:], ())
)  # fmt: skip
"""Columns of each kind, in order of look-up."""

WINDOWS = (5, 10, 20, 50, 100)
"""Numbers of latest jobs whose longest runtime a limit may be made of."""

LEAST_JOBS = 10
RECENT_S = 180 * DAY_S
"""A kind has a row if this many of its jobs have ended in this time; the tasks of a job array count as one job."""

_DAYS = 1 << 22
"""More than the days since 1970 of any job."""


def is_nameless(template: int) -> bool:
    """Whether a template is for logs whose names do not tell applications."""
    return "what" not in TEMPLATES[template]


class Kinds(NamedTuple):
    """The kinds of one template; from `job` on of ended jobs, in order of kind and end."""

    template: int
    columns: tuple[str, ...]
    """Those of the template that the log tells."""
    of_job: Ints
    """Per job the number of its kind, -1 where a value is unknown."""
    reads: Bools
    """Per job whether the template may answer its submit."""
    job: Ints
    first: Ints
    """The place of the first job of the same kind."""
    known: Ints
    """The kind's number and the day on which the end is known, as one ascending number."""
    longest_s: Array
    """(ended, WINDOWS) the longest of so many latest runtimes, float32; one that was cut short counts as its request.
    """
    n_apart: Ints
    """Ended jobs of all kinds up to this one, of which the tasks of an array count as one, in each kind;"""
    apart: Ints
    """the places of these: of an array that of its first task to end."""

    def n_jobs(self, place: Ints) -> Ints:
        """Ended jobs of a kind up to a place, where the tasks of an array count as one."""
        return self.n_apart[place] - self.n_apart[self.first[place]] + 1


def values_of(history: History) -> dict[str, Array]:
    """Per column of TEMPLATES the jobs' values: codes (-1 unknown), or numbers (NaN unknown)."""
    what, names = history.codes["what"], history.names.get("what", [])
    # A queue stands for a program where nothing else is known: it names no application.
    is_queue = np.array([name.startswith("queue ") for name in names] + [True])
    return {
        "who": history.codes["who"], "what": np.where(is_queue[what], -1, what) if names else what,
        "queue": history.codes["queue"], "requested_s": np.where(history.requested_s > 0, history.requested_s, np.nan),
        "procs": history.procs, "gpus": np.nan_to_num(history.gpus), "gpu_type": history.codes["gpu_type"],
        "memory_class_kib": memory_class_kib(history.requested_mem_kib), "qos": history.codes["qos"],
    }  # fmt: skip


def memory_class_kib(memory_kib: Floats) -> Floats:
    """Memory per processor, KiB, rounded up to a power of two; NaN where none is asked for."""
    return 2.0 ** np.ceil(np.log2(np.maximum(np.where(memory_kib > 0, memory_kib, np.nan), 1.0)))


def names_tell(what: Ints) -> Bools:
    """Per job whether the names of the log so far tell applications: most jobs have one, and share it with others."""
    n = np.arange(1, len(what) + 1)
    is_first = np.zeros(len(what), np.bool_)
    is_first[np.unique(what, return_index=True)[1]] = True
    n_named, n_names = np.cumsum(what >= 0), np.cumsum(is_first & (what >= 0))
    return (2 * n_named > n) & ((n < NAMED_JOBS) | (n_names <= MOST_NEW * n_named))


def told_columns(values: dict[str, Array]) -> set[str]:
    """The columns of which the log knows any value; of types of GPUs it has to know two."""
    return {name for name, own in values.items() if (own >= (name == "gpu_type")).any()}


def _is_known(values: Array) -> Bools:
    return values >= 0


def run_s_of(history: History) -> Floats:
    """Runtimes, s; of a job that was cut short its request, if that is longer.

    Also of a job that was stopped at a limit of ours: how much longer it would have run is unknown, and its user's
    request is the one bound that is. So the next limit of its kind is longer, never shorter.
    """
    return np.where(history.is_lower_bound, np.fmax(history.runtime_s, history.requested_s), history.runtime_s)


def kinds_of(history: History, values: dict[str, Array], run_s: Floats) -> list[Kinds]:
    """The kinds of each template that the log tells, in order of look-up.

    `values` and `run_s` are those of `values_of` and `run_s_of`.
    """
    told = told_columns(values)
    has_ended = history.has_run & history.is_learnt & (history.requested_s > 0)
    found = []
    for template, wanted in enumerate(TEMPLATES):
        if {name for name in wanted if name in (*OPTIONAL, "what", "who", "requested_s")} <= told:
            columns = tuple(name for name in wanted if name in told)
            keys = [np.ascontiguousarray(values[name]) for name in columns]
            # A job without GPUs has no type of them, which is a value.
            is_known = np.logical_and.reduce([_is_known(values[name]) for name in columns if name != "gpu_type"])
            left = [name for name in OPTIONAL if name in told and name not in columns]
            is_open = np.logical_and.reduce([np.full(len(history), True)] + [~_is_known(values[one]) for one in left])
            reads = is_known & is_open & (history.requested_s > 0)
            number = np.unique(np.where(is_known, mixed(*keys), -1), return_inverse=True)[1]
            of_job = np.where(is_known, number, -1)
            places = np.flatnonzero(has_ended & is_known)
            ended = _ended_of(of_job, places, history.end_s, run_s)
            apart = _is_apart(of_job[ended[0]], history.codes["array_id"][ended[0]])
            found.append(Kinds(template, columns, of_job, reads, *ended, np.cumsum(apart), np.flatnonzero(apart)))
    return found


def _ended_of(of_job: Ints, places: Ints, end_s: Floats, run_s: Floats) -> tuple[Ints, Ints, Ints, Array]:
    """The jobs of Kinds, the first of each, when it is known, and the longest runtimes."""
    job = places[np.lexsort((end_s[places], of_job[places]))]
    kind, nth = of_job[job], np.arange(len(job))
    first = np.maximum.accumulate(np.where(np.append(True, kind[1:] != kind[:-1])[: len(job)], nth, 0))
    known = kind * _DAYS + np.ceil(end_s[job] / DAY_S).astype(np.int64)
    return job, first, known, _longest_s(np.ceil(run_s[job]), first)


def _longest_s(run_s: Floats, first: Ints) -> Array:
    """(ended, WINDOWS) the longest of the latest runtimes of a kind, by doubling."""
    found, nth = np.empty((len(run_s), len(WINDOWS)), np.float32), np.arange(len(run_s))
    doubled, reach = run_s.astype(np.float32), 1
    for place, window in enumerate(WINDOWS):
        while 2 * reach <= window:
            doubled = np.maximum(doubled, doubled[np.maximum(nth - reach, first)])
            reach *= 2
        found[:, place] = np.maximum(doubled, doubled[np.maximum(nth - (window - reach), first)])
    return found


def _is_apart(kind: Ints, array: Ints) -> Bools:
    """Per ended job whether it is in no array, or the first of its array and kind."""
    found = array < 0
    places = np.flatnonzero(~found)
    found[places[np.unique(mixed(kind[places], array[places]), return_index=True)[1]]] = True
    return found


def newest_known(kinds: Kinds, end_s: Floats, of_job: Ints, at_s: Floats) -> Ints:
    """Per wanted kind the place, among the ended, of its newest job known at a midnight; -1: no row then."""
    if not len(kinds.job):
        return np.full(len(of_job), -1, np.int64)
    wanted = of_job * _DAYS + (at_s / DAY_S).astype(np.int64)
    place = np.searchsorted(kinds.known, wanted, side="right") - 1
    own = np.maximum(place, 0)
    is_own = (place >= 0) & (of_job >= 0) & (kinds.known[own] // _DAYS == of_job)
    return np.where(is_own & has_row(kinds, end_s, own, at_s), place, -1)


def has_row(kinds: Kinds, end_s: Floats, place: Ints, at_s: Floats) -> Bools:
    """Whether LEAST_JOBS of a kind had ended in RECENT_S before a time, the newest at a place among the ended."""
    if not len(kinds.apart):
        return np.zeros(len(place), np.bool_)
    tenth = kinds.apart[np.maximum(kinds.n_apart[place] - LEAST_JOBS, 0)]
    return (kinds.n_jobs(place) >= LEAST_JOBS) & (end_s[kinds.job[tenth]] >= at_s - RECENT_S)
