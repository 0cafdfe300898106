"""Hypothetical jobs as questions to a State, and how many jobs each answer rests on."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from pipeline.arrays import Bools, Floats, Ints, Value, offset_s
from pipeline.errors import InputError
from pipeline.estimate import answer
from pipeline.estimate.history import WHAT, WHO, History
from pipeline.estimate.jobs import TRAITS, jobs_of
from pipeline.estimate.state import State
from pipeline.schema import UNTOLD

MOST_ALIKE = 20
"""Newest jobs alike whose requests are compared."""

NEAR = 2.0
"""Requests up to this ratio apart are near one another."""


class Basis(NamedTuple):
    """Per question: whether its user is known, and numbers of ended jobs.

    These are the jobs of the user; of these the ones of the same program, processors and memory; and the jobs of all
    users of the program with the same request. The last columns are of the user's remembered jobs with a request:
    whether the request lies outside theirs by more than twice, their least and largest request and median runtime, s.
    """

    is_known: Bools
    n_submitter: Ints
    n_kind: Ints
    n_everybody: Ints
    n_remembered: Ints
    is_unusual_request: Bools
    least_requested_s: Floats
    most_requested_s: Floats
    usual_runtime_s: Floats


def questions_of(
    jobs: Sequence[Mapping[str, Value]], submit_s: Floats, timezone: str, procs_per_node: float | None = None
) -> History:
    """Hypothetical jobs, given as values of JOBS columns; None and missing values are unknown, but no GPUs are none.

    The user and the program are the first known column of WHO and of WHAT, as in `history`. Processors of a job that
    tells only `nodes` are those of as many nodes.

    Parameters
    ----------
    jobs : sequence of mappings
        n jobs, each a mapping from names of JOBS columns to values.
    submit_s : Floats
        float64[n], submit times, s since 1970, ascending.
    timezone : str
        IANA name of the site's time zone.
    procs_per_node : float, optional
        Processors of a node.

    Returns
    -------
    History
        The n jobs, without start, end and runtime.

    Raises
    ------
    InputError
        If a job tells nodes and no processors, and the processors of a node are unknown.

    Examples
    --------
    >>> questions = questions_of([{"user": "ada", "procs": 4}], np.array([0.0]), "UTC")
    >>> questions.procs, questions.requested_s
    (array([4.]), array([nan]))
    """
    n, never_s, gpus = len(jobs), np.full(len(jobs), np.inf), _numbers(jobs, "gpus")
    procs, nodes = _numbers(jobs, "procs"), _numbers(jobs, "nodes")
    if procs_per_node is None and (np.isnan(procs) & (nodes > 0)).any():
        do = "set procs_per_node in [site], or give the processors"
        raise InputError("nodes", "a job with nodes and no processors", "a site whose nodes are known", do)
    texts = {
        "who": [first_text(job, WHO) for job in jobs], "what": [first_text(job, WHAT) for job in jobs],
        **{name: [_text(job, name) for job in jobs] for name in (*TRAITS[1:], "array_id")},
    }  # fmt: skip
    texts["gpu_type"] = [
        (text or UNTOLD) if has_gpus else None for text, has_gpus in zip(texts["gpu_type"], gpus > 0, strict=True)
    ]
    named = {name: [text for text in dict.fromkeys(own) if text] for name, own in texts.items()}
    places = {name: {text: code for code, text in enumerate(own)} for name, own in named.items()}
    local_s = submit_s.astype(np.int64)
    return History(
        row=np.arange(n), submit_s=submit_s, start_s=never_s, end_s=never_s, runtime_s=np.full(n, np.nan),
        requested_s=_numbers(jobs, "requested_s"), requested_mem_kib=_numbers(jobs, "requested_mem_kib"),
        gpus=gpus, procs=np.where(np.isnan(procs), nodes * (procs_per_node or np.nan), procs),
        local_s=local_s + offset_s(local_s, timezone),
        is_lower_bound=np.zeros(n, np.bool_), is_learnt=np.ones(n, np.bool_),
        codes={name: np.array([places[name].get(text or "", -1) for text in own]) for name, own in texts.items()},
        names=named,
    )  # fmt: skip


def first_text(job: Mapping[str, Value], columns: Sequence[str]) -> str | None:
    """The text of the first known column; a text of any but the first column begins with its column's name."""
    found = next(((name, text) for name in columns if (text := _text(job, name))), None)
    if found is None:
        return None
    return found[1] if found[0] == columns[0] else f"{found[0]} {found[1]}"


def _text(job: Mapping[str, Value], name: str) -> str | None:
    value = job.get(name)
    return None if value is None else str(value)


def _numbers(jobs: Sequence[Mapping[str, Value]], name: str) -> Floats:
    return np.array([np.nan if (value := job.get(name)) is None else float(value) for job in jobs])


def completed(state: State, questions: History) -> History:
    """The questions with the usual type of GPUs, processors, memory and requested time where they are unknown.

    Each is that of the newest remembered job alike: see `_newest_alike`. A request is the one that most of the user's
    newest jobs alike have; where their requests differ, the job keeps none.

    Parameters
    ----------
    state : State
        Result of `learn` or `update`.
    questions : History
        n jobs, as `questions_of` makes them.

    Returns
    -------
    History
        The n jobs.

    Examples
    --------
    >>> from pipeline.estimate.state import loaded_state
    >>> state = loaded_state(tables["state"], "the sample's state")
    >>> found = completed(state, questions_of([{"user": "nobody"}], np.array([0.0]), "UTC"))
    >>> bool(found.procs[0] >= 1)
    True
    """
    procs, memory_kib, requested_s = (
        one.copy() for one in (questions.procs, questions.requested_mem_kib, questions.requested_s)
    )
    known, values = list(state.names.texts["gpu_type"]), state.jobs.values
    names, codes = [*questions.names["gpu_type"], *known], questions.codes["gpu_type"].copy()
    for job in range(len(questions)):
        has_gpus = questions.gpus[job] > 0
        alike = _newest_alike(state, questions, job, has_gpus=has_gpus)
        if not len(alike):
            procs[job] = 1.0 if np.isnan(procs[job]) else procs[job]
            continue
        place = alike[-1]
        if has_gpus and names[codes[job]] == UNTOLD and UNTOLD not in known:
            codes[job] = len(questions.names["gpu_type"]) + state.jobs.codes[place, answer.GPU_TYPE]
        if np.isnan(procs[job]):
            each = values[place, answer.PROCS] / values[place, answer.GPUS] if has_gpus else values[place, answer.PROCS]
            procs[job] = max(np.round(each * (questions.gpus[job] if has_gpus else 1.0)), 1.0)
        if np.isnan(memory_kib[job]) and values[place, answer.MEMORY] > 0:
            memory_kib[job] = values[place, answer.MEMORY]
        if np.isnan(requested_s[job]):
            is_own = state.jobs.codes[place, answer.WHO] == _known(state, questions, job, "who") >= 0
            limits_s, counts = np.unique(values[alike, answer.LIMIT], return_counts=True)
            usual_s = limits_s[counts.argmax()]
            if is_own and usual_s > 0 and 2 * counts.max() >= len(alike):
                requested_s[job] = usual_s
    return replace(
        questions,
        procs=procs,
        requested_mem_kib=memory_kib,
        requested_s=requested_s,
        codes={**questions.codes, "gpu_type": codes},
        names={**questions.names, "gpu_type": names},
    )


def _newest_alike(state: State, questions: History, job: int, *, has_gpus: bool) -> Ints:
    """The places of the newest remembered jobs of the user and program, else of the user, else of the program, else of
    any; of the user's those on as many processors, where these are known and any ran on them."""
    codes, chosen = state.jobs.codes, (state.jobs.values[:, answer.GPUS] > 0) == has_gpus
    who, what = (_known(state, questions, job, name) for name in ("who", "what"))
    own = chosen & (codes[:, answer.WHO] == who)
    same = chosen & (codes[:, answer.PROGRAM] == what)
    sized = own & (state.jobs.values[:, answer.PROCS] == questions.procs[job])
    for one in (sized & same, own & same, sized, own, same, chosen):
        places = np.flatnonzero(one)
        if len(places):
            break
    return places[-MOST_ALIKE:]


def _known(state: State, questions: History, job: int, name: str) -> int:
    code = int(questions.codes[name][job])
    return state.names.texts[name].get(questions.names[name][code], -2) if code >= 0 else -1


def basis_of(state: State, questions: History) -> Basis:
    """What the State has learnt about the questions' users and kinds of jobs: counts, requests and runtimes in s.

    Parameters
    ----------
    state : State
        Result of `learn` or `update`.
    questions : History
        n jobs, as `questions_of` makes them.

    Returns
    -------
    Basis
        Arrays of n values: counts of jobs; requests and runtimes, s.

    Examples
    --------
    >>> from pipeline.estimate.state import loaded_state
    >>> state = loaded_state(tables["state"], "the sample's state")
    >>> basis_of(state, questions_of([{"user": "nobody", "procs": 1}], np.array([0.0]), "UTC")).is_known
    array([False])
    """
    jobs, _ = jobs_of(questions, state.names, registers=False)
    memory, users = state.ages[0.0].memory, jobs.codes[:, answer.USER]
    rows = [_of_user(state, *one) for one in zip(users, jobs.values[:, answer.LIMIT], strict=True)]
    is_known = np.array([_known(state, questions, job, "who") >= 0 for job in range(len(questions))])
    n_kind = memory.rings.kind.heads[jobs.codes[:, answer.KIND], answer.COUNT]
    n_everybody = memory.rings.everybody.heads[jobs.codes[:, answer.EVERYBODY], answer.COUNT]
    n_ended = memory.users[users, answer.N_ENDED].astype(np.int64)
    return Basis(is_known, n_ended, n_kind, n_everybody, *(np.array(column) for column in zip(*rows, strict=True)))


def _of_user(state: State, user: int, limit_s: float) -> tuple[int, bool, float, float, float]:
    """The last columns of Basis of one question."""
    ring = state.ages[0.0].memory.rings.ended
    newest, n, row = ring.heads[user]
    values = state.jobs.values[ring.jobs[row][: min(n, ring.jobs.shape[1])] if n > 1 else [newest] * n]
    values = values[values[:, answer.LIMIT] > 0]
    if not len(values):
        return 0, False, np.nan, np.nan, np.nan
    limits_s, runtimes_s = values[:, answer.LIMIT], np.sort(values[:, answer.RUNTIME])
    least_s, most_s = float(limits_s.min()), float(limits_s.max())
    is_unusual = limit_s > 0 and not least_s / NEAR <= limit_s <= NEAR * most_s
    return len(values), bool(is_unusual), least_s, most_s, float(runtimes_s[(len(runtimes_s) - 1) // 2])
