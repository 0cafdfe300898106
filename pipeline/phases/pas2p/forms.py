"""Which occurrences are of one phase: equal ones by a digest, others by the share of events alike (step 5)."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipeline.core.phase_settings import Pas2pSettings
from pipeline.phases.pas2p.logical_trace import LogicalTrace

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Digests = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Form:
    """The cells (tick within the phase and rank) of an occurrence, ascending, with the code and computation of each."""

    n_ticks: int
    cells: Ints
    codes: Ints
    compute_s: Floats


def name_phases(trace: LogicalTrace, ranks: Ints, compute_s: Floats, cuts: Ints, settings: Pas2pSettings) -> Ints:
    """Per occurrence, which goes from cut to cut, the number of its phase, by first occurrence from 0.

    `ranks` and `compute_s` (the computation before it) are of the events in the order of the trace.
    """
    first, same = _equal_ones(trace, cuts) if not settings.compute_similarity else _each(len(cuts) - 1)
    known: dict[int, list[tuple[int, Form]]] = {}
    number = np.empty(len(first), np.int64)
    n_phases = 0
    for one, occurrence in enumerate(first):
        form = form_of(trace, ranks, compute_s, int(cuts[occurrence]), int(cuts[occurrence + 1]))
        alike = known.setdefault(form.n_ticks, [])
        number[one] = next((phase for phase, other in alike if are_similar(form, other, settings)), n_phases)
        if number[one] == n_phases:
            alike.append((n_phases, form))
            n_phases += 1
    return number[same]


def are_similar(one: Form, other: Form, settings: Pas2pSettings) -> bool:
    """Whether enough of the cells in which either has an event are alike."""
    _, mine, others = np.intersect1d(one.cells, other.cells, assume_unique=True, return_indices=True)
    n_cells = len(one.cells) + len(other.cells) - len(mine)
    alike = one.codes[mine] == other.codes[others]
    if settings.compute_similarity:
        a, b = one.compute_s[mine], other.compute_s[others]
        alike &= np.minimum(a, b) >= settings.compute_similarity * np.maximum(a, b)
    n_alike = int(alike.sum())
    if settings.silence_is_alike:
        n_alike += n_cells - len(mine)
    return n_alike >= settings.similar_share * n_cells


def form_of(trace: LogicalTrace, ranks: Ints, compute_s: Floats, begin: int, end: int) -> Form:
    """The form of an occurrence from one tick to before another."""
    inside = slice(int(trace.starts[begin]), int(trace.starts[end]))
    tick = np.repeat(np.arange(end - begin), np.diff(trace.starts[begin : end + 1]))
    cells = tick * (int(ranks.max(initial=0)) + 1) + ranks[inside]
    return Form(end - begin, cells, trace.code[inside], compute_s[inside])


def _equal_ones(trace: LogicalTrace, cuts: Ints) -> tuple[Ints, Ints]:
    """The first occurrence of every different one, ascending, and per occurrence its place among them."""
    ticks = np.add.reduceat(_mixed(trace.code.astype(np.uint64)), trace.starts[:-1])
    within = np.arange(trace.n_ticks) - np.repeat(cuts[:-1], np.diff(cuts))
    digests = np.add.reduceat(_mixed(ticks ^ _mixed(within.astype(np.uint64))), cuts[:-1])
    lengths: Digests = np.diff(cuts).astype(np.uint64)
    digests = _mixed(digests ^ lengths)
    _, first, same = np.unique(digests, return_index=True, return_inverse=True)
    return _by_first(first, same)


def _by_first(first: Ints, same: Ints) -> tuple[Ints, Ints]:
    order = np.argsort(first)
    place = np.empty(len(first), np.int64)
    place[order] = np.arange(len(first))
    return first[order], place[same]


def _each(n: int) -> tuple[Ints, Ints]:
    return np.arange(n), np.arange(n)


def _mixed(values: Digests) -> Digests:
    """Numbers of 64 bits whose sums hardly ever meet (the finaliser of splitmix64, Steele, Lea and Flood 2014)."""
    mixed = values + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
