"""Which occurrences are of one phase (Section 3.3), and how short phases are joined to longer ones that repeat.

Equal occurrences are known by a digest, others by the share of events alike (step 5). Joining has the same rule of
growth, on the sequence of phases. The paper's own growth, a search for known phases at every tick, is slow.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from pipeline.arrays import Floats, Ints
from pipeline.phases.logical_trace import LogicalTrace, grown_phases
from pipeline.phases.mpi_calls import by_first_appearance
from pipeline.phases.phase_input import Pas2pRules

Digests = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Form:
    """The cells (tick within the phase and rank) of an occurrence, ascending, with the code and computation of each."""

    n_ticks: int
    cells: Ints
    codes: Ints
    compute_s: Floats


def name_phases(trace: LogicalTrace, cuts: Ints, rules: Pas2pRules) -> Ints:
    """Per occurrence, which goes from cut to cut, the number of its phase, by first occurrence from 0."""
    first, same = _equal_ones(trace, cuts) if not rules.compute_similarity else (np.arange(len(cuts) - 1),) * 2
    known = KnownPhases(rules)
    names = [known.name(form_of(trace, int(cuts[one]), int(cuts[one + 1]))) for one in first]
    return np.array(names, np.int64)[same]


class KnownPhases:
    """The phases so far, numbered from 0: the form of the first occurrence of each."""

    def __init__(self, rules: Pas2pRules) -> None:
        self._rules, self._n_phases = rules, 0
        self._by_length: dict[int, list[tuple[int, Form]]] = {}

    def find(self, form: Form) -> int | None:
        """The first phase that is similar."""
        alike = self._by_length.get(form.n_ticks, [])
        return next((phase for phase, other in alike if are_similar(form, other, self._rules)), None)

    def name(self, form: Form) -> int:
        """The same, or a new phase."""
        phase = self.find(form)
        if phase is None:
            phase, self._n_phases = self._n_phases, self._n_phases + 1
            self._by_length.setdefault(form.n_ticks, []).append((phase, form))
        return phase


def are_similar(one: Form, other: Form, rules: Pas2pRules) -> bool:
    """Whether enough of the cells in which either has an event are alike."""
    _, mine, others = np.intersect1d(one.cells, other.cells, assume_unique=True, return_indices=True)
    n_cells = len(one.cells) + len(other.cells) - len(mine)
    alike = one.codes[mine] == other.codes[others]
    if rules.compute_similarity:
        a, b = one.compute_s[mine], other.compute_s[others]
        alike &= np.minimum(a, b) >= rules.compute_similarity * np.maximum(a, b)
    n_alike = int(alike.sum())
    if rules.silence_is_alike:
        n_alike += n_cells - len(mine)
    return n_alike >= rules.similar_share * n_cells


def form_of(trace: LogicalTrace, begin: int, end: int) -> Form:
    """The form of an occurrence from one tick to before another."""
    inside = slice(int(trace.starts[begin]), int(trace.starts[end]))
    tick = np.repeat(np.arange(end - begin), np.diff(trace.starts[begin : end + 1]))
    cells = tick * (int(trace.rank.max(initial=0)) + 1) + trace.rank[inside]
    return Form(end - begin, cells, trace.code[inside], trace.compute_s[inside])


def _equal_ones(trace: LogicalTrace, cuts: Ints) -> tuple[Ints, Ints]:
    """The first occurrence of every different one, ascending, and per occurrence its place among them."""
    ticks = np.add.reduceat(_mixed(trace.code.astype(np.uint64)), trace.starts[:-1])
    within = np.arange(trace.n_ticks) - np.repeat(cuts[:-1], np.diff(cuts))
    digests = np.add.reduceat(_mixed(ticks ^ _mixed(within.astype(np.uint64))), cuts[:-1])
    lengths: Digests = np.diff(cuts).astype(np.uint64)
    digests = _mixed(digests ^ lengths)
    return by_first_appearance(digests)


def _mixed(values: Digests) -> Digests:
    """Numbers of 64 bits whose sums hardly ever meet (the finaliser of splitmix64, Steele, Lea and Flood 2014)."""
    mixed = values + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


@dataclass(frozen=True, slots=True)
class Sequence:
    """The occurrences of a run in order: the phase of each, and the cuts (ticks) between them, one more."""

    level: int
    phase: Ints
    cuts: Ints


def joined(sequence: Sequence) -> Sequence:
    """One level up: runs of one phase count as one, and a phase grows until a phase of the level below repeats."""
    begins = np.flatnonzero(np.r_[True, np.diff(sequence.phase) != 0])
    runs = sequence.phase[begins]
    ends = grown_phases(np.arange(len(runs) + 1), runs, int(runs.max(initial=0)) + 1)
    names: dict[bytes, int] = {}
    phase = [names.setdefault(runs[a:b].tobytes(), len(names)) for a, b in pairwise(ends.tolist())]
    cuts = np.r_[sequence.cuts[begins], sequence.cuts[-1]][ends]
    return Sequence(sequence.level + 1, np.array(phase, np.int64), cuts)


def search_each_tick(trace: LogicalTrace, rules: Pas2pRules) -> tuple[Ints, Ints]:
    """The cuts between occurrences, and the phase of each (Section 3.3, steps 1 to 6)."""
    known = KnownPhases(rules)
    cuts, phases = [0], []
    for begin, end in _grown(trace, known):
        cuts.append(end)
        phases.append(known.name(form_of(trace, begin, end)))
    return np.array(cuts), np.array(phases, np.int64)


def _grown(trace: LogicalTrace, known: KnownPhases) -> Iterator[tuple[int, int]]:
    """Phases in order, as begin and end; the caller names each before the next is asked for."""
    begin = 0
    seen: dict[int, int] = {}
    for tick in range(trace.n_ticks):
        codes = trace.code[trace.starts[tick] : trace.starts[tick + 1]].tolist()
        first = min((seen[code] for code in codes if code in seen), default=None)
        if first is not None:
            if first > begin:
                yield begin, first
            yield first, tick
            begin, seen = tick, {}
        elif tick > begin and known.find(form_of(trace, begin, tick)) is not None:
            yield begin, tick
            begin, seen = tick, {}
        seen |= dict.fromkeys(codes, tick)
    if begin < trace.n_ticks:
        yield begin, trace.n_ticks
