"""Queries to a State: hypothetical jobs, and the jobs of the State that each answer is based on."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from pipeline.arrays import Bools, Floats, Ints, Value, median, offset_s
from pipeline.axes import UNTOLD
from pipeline.errors import InputError
from pipeline.estimate import chains
from pipeline.estimate.history import WHAT, WHO, History
from pipeline.estimate.learnt_parts import recoded
from pipeline.estimate.score import N_QUANTILES, scores
from pipeline.estimate.similar_jobs import N_ENDED
from pipeline.estimate.state import Record, State
from pipeline.estimate.submits import ATTRIBUTES, GPU_TYPE, MEMORY, Jobs, jobs_of

LEVELS = (chains.CROWD - 1, chains.CROWD - 2, chains.OWN, chains.CROWD)
"""The chain's levels of a submitter's jobs, those of one program, of one kind, and everybody's."""


NEAR = 2.0
"""Requests up to this ratio apart are near one another."""


class Basis(NamedTuple):
    """Per question: whether the submitter is known, and numbers of ended jobs that the State has learnt from.

    These are the jobs of the submitter; those of the same program; of these the ones with the same requested
    runtime, processors and memory; and the jobs of all users of the program with the same requested runtime.
    """

    is_known: Bools
    n_submitter: Ints
    n_program: Ints
    n_kind: Ints
    n_everybody: Ints
    n_remembered: Ints
    """The submitter's latest ended jobs with a requested runtime that are compared with; a few per burst."""
    n_near_request: Ints
    """Of these, the jobs that requested half to twice as much."""
    is_unusual_request: Bools
    """Whether the request is more than twice the largest, or less than half the least, of these jobs' requests."""
    least_requested_s: Floats
    most_requested_s: Floats
    usual_runtime_s: Floats
    """The lower median of these jobs' runtimes, s."""


def questions_of(
    jobs: Sequence[Mapping[str, Value]], submit_s: Floats, timezone: str, procs_per_node: float | None = None
) -> History:
    """Hypothetical jobs, given as values of JOBS columns; None and missing values are unknown, but no GPUs are none.

    The submitter and the program are the first known column of WHO and of WHAT, as in `history`. Processors of a job
    that tells only `nodes` are those of as many nodes.

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
    n, nothing, gpus = len(jobs), np.full(len(jobs), np.inf), _numbers(jobs, "gpus")
    procs, nodes = _numbers(jobs, "procs"), _numbers(jobs, "nodes")
    if procs_per_node is None and (np.isnan(procs) & (nodes > 0)).any():
        do = "set procs_per_node in [site], or give the processors"
        raise InputError("nodes", "a job with nodes and no processors", "a site whose nodes are known", do)
    texts = {
        "who": [first_text(job, WHO) for job in jobs], "what": [first_text(job, WHAT) for job in jobs],
        **{name: [_text(job, name) for job in jobs] for name in (*ATTRIBUTES, "array_id") if name != "what"},
    }  # fmt: skip
    texts["gpu_type"] = [
        (text or UNTOLD) if has_gpus else None for text, has_gpus in zip(texts["gpu_type"], gpus > 0, strict=True)
    ]
    named = {name: [text for text in dict.fromkeys(own) if text] for name, own in texts.items()}
    places = {name: {text: code for code, text in enumerate(own)} for name, own in named.items()}
    local_s = submit_s.astype(np.int64)
    return History(
        row=np.arange(n), submit_s=submit_s, start_s=nothing, end_s=nothing, runtime_s=np.full(n, np.nan),
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


def basis_of(state: State, questions: History) -> Basis:
    """What the State has learnt about the questions' submitters, programs and job classes.

    Parameters
    ----------
    state : State
        Result of `learn` or `update`.
    questions : History
        n jobs, as `questions_of` makes them.

    Returns
    -------
    Basis
        Arrays of n values: counts of jobs, requests and runtimes in s.

    Examples
    --------
    >>> from pipeline.estimate.state_table import loaded_state
    >>> state, _ = loaded_state(tables["state"], "the sample's state")
    >>> basis_of(state, questions_of([{"user": "nobody", "procs": 1}], np.array([0.0]), "UTC")).is_known
    array([False])
    """
    jobs = jobs_of(recoded(questions, state.names))
    numbers = chains.numbered(state.chain, chains.digests_of(jobs, LEVELS))
    of_who, of_program, of_kind, of_everybody = (_counted(state.chain.latest.n_entries, own) for own in numbers)
    return Basis(
        (jobs.who >= 0) & (jobs.who < len(state.names["who"])),
        of_who,
        np.where(jobs.what < 0, 0, of_program),
        of_kind,
        of_everybody,
        *_remembered(state, jobs),
    )


def _remembered(state: State, jobs: Jobs) -> tuple[Ints, Ints, Bools, Floats, Floats, Floats]:
    """The last columns of Basis; NaN where no such job is remembered."""
    places = state.memory.ended[jobs.who]
    requested_s, asked_s = np.append(state.jobs.requested_s, 0.0)[places], jobs.requested_s
    is_held = (places >= 0) & (requested_s > 0)
    n_held = is_held.sum(axis=1)
    near = is_held & (requested_s <= NEAR * asked_s[:, None]) & (requested_s * NEAR >= asked_s[:, None])
    least_s = np.min(np.where(is_held, requested_s, np.inf), axis=1)
    most_s = np.max(np.where(is_held, requested_s, -np.inf), axis=1)
    is_unusual = (n_held > 0) & (asked_s > 0) & ((asked_s > NEAR * most_s) | (asked_s * NEAR < least_s))
    runtime_s = np.sort(np.where(is_held, np.append(state.jobs.runtime_s, np.inf)[places], np.inf), axis=1)
    usual_s = runtime_s[np.arange(len(places)), np.maximum(n_held - 1, 0) // 2]
    known = (np.where(n_held > 0, column, np.nan) for column in (least_s, most_s, usual_s))
    return n_held, near.sum(axis=1), is_unusual, *known


def completed(state: State, questions: History) -> History:
    """The questions with the submitter's usual type of GPUs, processors and memory where they are unknown."""
    questions = _with_gpu_types(state, questions)
    with_procs = replace(
        questions, procs=np.where(np.isnan(questions.procs), usual_procs(state, questions), questions.procs)
    )
    memory_kib = np.where(
        np.isnan(questions.requested_mem_kib), usual_memory_kib(state, questions), questions.requested_mem_kib
    )
    return replace(with_procs, requested_mem_kib=memory_kib)


def _with_gpu_types(state: State, questions: History) -> History:
    """The questions with the usual type of GPUs where theirs is unknown."""
    names, known = questions.names["gpu_type"], list(state.names["gpu_type"])
    untold = names.index(UNTOLD) if UNTOLD in names and UNTOLD not in known else -2
    codes, has_gpus = questions.codes["gpu_type"].copy(), state.jobs.gpus > 0
    for place in np.flatnonzero(codes == untold).tolist() if has_gpus.any() else []:
        codes[place] = len(names) + state.jobs.traits[_newest_alike(state, questions, place, has_gpus), GPU_TYPE]
    both = {**questions.names, "gpu_type": [*names, *known]}
    return replace(questions, codes={**questions.codes, "gpu_type": codes}, names=both)


def _newest_alike(state: State, questions: History, place: int, chosen: Bools) -> int:
    """The newest of some remembered jobs: of the question's submitter and program, else of the submitter, else of all.
    """
    (who,), (what,) = (recoded(questions.take(np.array([place])), state.names).codes[name] for name in ("who", "what"))
    own, jobs = chosen & (state.jobs.who == who), state.jobs
    kinds = (np.flatnonzero(one) for one in (own & (jobs.what == what), own, chosen))
    return int(next(one for one in kinds if len(one))[-1])


def usual_procs(state: State, questions: History) -> Floats:
    """Per question the processors of its submitter's last submit, else the median of all jobs remembered; else one.

    On GPUs those that the newest remembered job of its type had on each GPU, of its submitter before others.

    Parameters
    ----------
    state : State
        Result of `learn` or `update`.
    questions : History
        n jobs, as `questions_of` makes them.

    Returns
    -------
    Floats
        float64[n], processors, at least 1.

    Examples
    --------
    >>> from pipeline.estimate.state_table import loaded_state
    >>> state, _ = loaded_state(tables["state"], "the sample's state")
    >>> usual_procs(state, questions_of([{"user": "nobody"}], np.array([0.0]), "UTC")).shape
    (1,)
    """
    codes = recoded(questions, state.names).codes
    known = np.where(codes["who"] >= 0, state.last_submits.procs[codes["who"]], np.nan)
    usual = float(median(state.jobs.procs)) if len(state.jobs.procs) else 1.0
    found = np.where(np.isnan(known), max(np.floor(usual), 1.0), known)
    for job in np.flatnonzero(questions.gpus > 0).tolist():
        is_alike = state.jobs.traits[:, GPU_TYPE] == codes["gpu_type"][job]
        if is_alike.any():
            place = _newest_alike(state, questions, job, is_alike)
            each = state.jobs.procs[place] / state.jobs.gpus[place]
            found[job] = max(np.round(each * questions.gpus[job]), 1.0)
    return found


def usual_memory_kib(state: State, questions: History) -> Floats:
    """Per question the memory that its submitter's newest remembered job of the program requested; NaN: none known.

    Parameters
    ----------
    state : State
        Result of `learn` or `update`.
    questions : History
        n jobs, as `questions_of` makes them.

    Returns
    -------
    Floats
        float64[n], KiB.

    Examples
    --------
    >>> from pipeline.estimate.state_table import loaded_state
    >>> state, _ = loaded_state(tables["state"], "the sample's state")
    >>> usual_memory_kib(state, questions_of([{"user": "nobody"}], np.array([0.0]), "UTC"))
    array([nan])
    """
    codes, memory = recoded(questions, state.names).codes, state.memory
    found = np.full(len(questions), np.nan)
    for job, (who, what) in enumerate(zip(codes["who"].tolist(), codes["what"].tolist(), strict=True)):
        if not 0 <= who < len(state.names["who"]):
            continue
        taken = int(memory.n_ended[who])
        places = memory.ended[who, [(taken - 1 - back) % N_ENDED for back in range(min(taken, N_ENDED))]]
        own = places[(state.jobs.what[places] == what) | (what < 0)]
        own = own[state.jobs.traits[own, GPU_TYPE] == codes["gpu_type"][job]]
        if len(own) and state.jobs.traits[own[0], MEMORY] >= 0:
            found[job] = state.jobs.traits[own[:1], MEMORY].view(np.float64)[0]
    return found


def score_of(record: Record) -> dict[str, float]:
    """The figures of `scores` over the latest ended jobs, each as it was answered at its submit; none without a job."""
    runtime_s, quantiles_s = record.runtime_s, record.quantiles_s[:, :N_QUANTILES]
    return dict(scores(runtime_s, quantiles_s, np.ones(len(runtime_s), np.bool_))) if len(runtime_s) else {}


def _text(job: Mapping[str, Value], name: str) -> str | None:
    value = job.get(name)
    return None if value is None else str(value)


def _numbers(jobs: Sequence[Mapping[str, Value]], name: str) -> Floats:
    return np.array([np.nan if (value := job.get(name)) is None else float(value) for job in jobs])


def _counted(counts: Ints | Floats, codes: Ints) -> Ints:
    """A count per code, 0 where it is unknown."""
    return np.where(codes >= 0, np.nan_to_num(counts[codes]), 0).astype(np.int64)
