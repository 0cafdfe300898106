"""Jobs as the kernels take them: numbers of names and keys that stay as the log grows, bursts and sessions."""

import hashlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from pipeline.arrays import Array, Floats, Ints
from pipeline.estimate.answer import BURST, LIMIT, LOG_PLACE, LOG_SIZE, SESSION, SUBMIT, USER, Jobs
from pipeline.estimate.history import History
from pipeline.kernels import entry_kernel

TRAITS = ("what", "user_group", "queue", "account", "partition", "qos", "job_name", "problem_size", "gpu_type")
"""Attributes that jobs are compared by; the last trait is the requested memory."""

NAMED_JOBS, MOST_NEW = 100, 0.5
"""Jobs that a judgement of names needs; the share of programs per job beyond which a program's name says nothing."""
BURST_GAP_S, SESSION_GAP_S = 600.0, 1200.0


KEYS = ("user", "kind", "same", "everybody", "request")
"""Keys of jobs, in the order of their columns in Jobs.codes."""


class Numbered(NamedTuple):
    """The keys known so far, as hashes in ascending order, and the number of each, from 0 in order of first use."""

    digest: Ints
    number: Ints

    def __len__(self) -> int:
        return len(self.digest)


class Names(NamedTuple):
    """Numbers of names and keys, from 0 in order of first use."""

    texts: dict[str, dict[str, int]]
    keys: dict[str, Numbered]
    n_submits: int = 0


def no_names() -> Names:
    """Nothing numbered."""
    none = Numbered(np.empty(0, np.int64), np.empty(0, np.int64))
    numbered = dict.fromkeys(("size", "memory", *KEYS), none)
    return Names({name: {} for name in ("who", *TRAITS)}, numbered)


def jobs_of(history: History, names: Names, *, registers: bool) -> tuple[Jobs, Names]:
    """A History's jobs; with `registers` new names and keys get numbers, else they are unknown.

    Jobs of an unknown user are those of their queue and partition: a log without users is answered by queue.
    """
    texts = {name: dict(known) for name, known in names.texts.items()}
    n_before = len(texts["what"])
    codes = {name: _recoded(history, name, texts[name], registers) for name in texts}
    n_names, nth = np.maximum(codes["what"] + 1, n_before), np.full(len(history), names.n_submits + 1)
    if registers:
        # Each question is asked as the next submit, jobs of a log one after the other.
        n_names, nth = np.maximum.accumulate(n_names), nth + np.arange(len(history))
    what = _known_programs(codes["what"], n_names, nth)
    numbered = dict(names.keys)

    def number(name: str, *columns: Array) -> Ints:
        digests = mixed(np.zeros(len(columns[0]), np.int64), *columns)
        if registers:
            numbered[name] = with_new(numbered[name], digests)
        return numbers(numbered[name], digests)

    limit_s = np.where(history.requested_s > 0, history.requested_s, 0.0)
    gpus = np.where(history.gpus > 0, history.gpus, 0.0)
    memory = number("memory", np.where(history.requested_mem_kib > 0, history.requested_mem_kib, -1.0))
    size = number("size", history.procs, gpus)
    # Side by side, so that the numbers do not depend on how many jobs come at a time.
    of_user = [np.ones(len(history), np.int64), codes["who"], np.zeros(len(history), np.int64)]
    of_queue = [np.zeros(len(history), np.int64), codes["queue"], codes["partition"]]
    is_named = codes["who"] >= 0
    both = (np.column_stack(pair).ravel() for pair in zip(of_user, of_queue, strict=True))
    user, queue = number("user", *both).reshape(-1, 2).T
    user = np.where(is_named, user, queue)
    program = 64 * what + codes["gpu_type"]
    kind = number("kind", user, program, size, memory, codes["problem_size"])
    keys = (
        user, kind, number("same", kind, limit_s), number("everybody", program, limit_s),
        np.where(limit_s > 0, 1 + number("request", limit_s), 0), queue,
    )  # fmt: skip
    runtime_s = np.where(history.runtime_s > 0, history.runtime_s, np.nan)
    with np.errstate(divide="ignore"):
        log_limit, log_size = np.log(np.where(limit_s > 0, limit_s, np.nan)), np.log(history.procs)
    blank = np.zeros(len(history))
    values = np.column_stack([
        runtime_s, limit_s, np.log(runtime_s), log_limit, log_size + np.log(np.maximum(gpus, 1.0)),
        history.submit_s, history.start_s, history.end_s, history.is_lower_bound,
        history.is_learnt & ~np.isnan(runtime_s), blank, names.n_submits + np.arange(len(history)), history.procs, gpus,
        history.requested_mem_kib,
    ])  # fmt: skip
    own = np.column_stack([what, *(codes[name] for name in TRAITS[1:]), memory, *keys, blank, blank, codes["who"]])
    jobs = Jobs(values, own.astype(np.int32))
    return jobs, Names(texts, numbered, names.n_submits + len(history) * registers)


def _recoded(history: History, name: str, known: dict[str, int], registers: bool) -> Ints:
    """The history's codes of an attribute as numbers of `known`; -1 unknown, len(known) for a text that is new."""
    place = np.full(len(history.names[name]) + 1, -1, np.int64)
    codes = history.codes[name].astype(np.int64)
    # In order of first use, so that the numbers do not depend on how many jobs come at a time.
    used, first = np.unique(codes[codes >= 0], return_index=True)
    for code in used[np.argsort(first, kind="stable")].tolist():
        text = history.names[name][code]
        place[code] = known.setdefault(text, len(known)) if registers else known.get(text, len(known))
    return place[codes]


def _known_programs(what: Ints, n_names: Ints, nth: Ints) -> Ints:
    """The programs, -1 where, as of the submit, most jobs have a name that no other job has: numbered scripts."""
    return np.where((nth >= NAMED_JOBS) & (n_names > MOST_NEW * nth), -1, what)


@entry_kernel
def set_bursts(jobs: Jobs, last: Ints, first: int, array: Ints, registers: bool) -> None:
    """Set burst and session of the jobs from `first` on; `last`: per user the place of the last submit.

    With `registers` it is updated; else each job is one for itself.
    """
    values, codes = jobs.values, jobs.codes
    for job in range(first, len(values)):
        user = codes[job, USER]
        other = last[user]
        codes[job, BURST], codes[job, SESSION], values[job, LOG_PLACE] = job, job, 0.0
        if other >= 0:
            gap_s = values[job, SUBMIT] - values[other, SUBMIT]
            if gap_s <= SESSION_GAP_S:
                codes[job, SESSION] = codes[other, SESSION]
            is_same = values[job, LIMIT] == values[other, LIMIT]
            is_same = is_same and values[job, LOG_SIZE] == values[other, LOG_SIZE]
            if gap_s <= BURST_GAP_S and is_same and array[job] == array[other]:
                codes[job, BURST] = codes[other, BURST]
                values[job, LOG_PLACE] = np.log1p(np.round(np.expm1(values[other, LOG_PLACE])) + 1)
        if registers:
            last[user] = job


MASK = np.uint64(2**63 - 1)


def mixed(*columns: Ints | Floats) -> Ints:
    """One 63-bit hash a row (splitmix64 over the columns); -1 where the first column is below 0."""
    found = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        found = _splitmix(found ^ _splitmix(np.ascontiguousarray(column).view(np.uint64)))
    return np.where(columns[0] < 0, np.int64(-1), (found & MASK).astype(np.int64))


def _splitmix(values: Array) -> Array:
    """Steele, Lea & Flood (2014): a bijection of 64 bits."""
    mixed_bits = values + np.uint64(0x9E3779B97F4A7C15)
    mixed_bits = (mixed_bits ^ (mixed_bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed_bits = (mixed_bits ^ (mixed_bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed_bits ^ (mixed_bits >> np.uint64(31))


def numbers(keys: Numbered, digests: Ints) -> Ints:
    """The number of each hash; -1 where it is -1, and len(keys) for every key not known."""
    place = np.minimum(np.searchsorted(keys.digest, digests), max(len(keys) - 1, 0))
    is_known = keys.digest[place] == digests if len(keys) else np.zeros(len(digests), np.bool_)
    found = np.where(is_known, keys.number[place] if len(keys) else 0, len(keys))
    return np.where(digests < 0, -1, found)


def with_new(keys: Numbered, digests: Ints) -> Numbered:
    """The keys and, numbered in order of first use, the hashes that are not among them."""
    is_new = (digests >= 0) & (numbers(keys, digests) == len(keys))
    values, first = np.unique(digests[is_new], return_index=True)
    number = np.empty(len(values), np.int64)
    number[np.argsort(first, kind="stable")] = len(keys) + np.arange(len(values))
    digest = np.concatenate([keys.digest, values])
    order = np.argsort(digest, kind="stable")
    return Numbered(digest[order], np.concatenate([keys.number, number])[order])


def hashes_of_names(names: Sequence[str]) -> Ints:
    """A hash of each text, and behind them 0 for the code -1."""
    raw = b"".join(hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest() for name in names)
    return np.append(np.frombuffer(raw, "<i8"), 0).astype(np.int64)


def texts(values: Iterable[str]) -> Array:
    """Texts as an array of objects."""
    listed = list(values)
    found = np.empty(len(listed), object)
    found[:] = listed
    return found
