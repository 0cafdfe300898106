"""The paper's own growth: at every tick a known phase is searched for. Slow, for comparison only."""

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from pipeline.core.phase_settings import Pas2pSettings
from pipeline.phases.pas2p.forms import Form, are_similar, form_of
from pipeline.phases.pas2p.logical_trace import LogicalTrace

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Search = Callable[[int, int], int | None]


def search_each_tick(trace: LogicalTrace, ranks: Ints, compute_s: Floats, settings: Pas2pSettings) -> tuple[Ints, Ints]:
    """The cuts between occurrences, and the phase of each (Section 3.3, steps 1 to 6)."""
    known: dict[int, list[tuple[int, Form]]] = {}

    def found(begin: int, end: int) -> int | None:
        form = form_of(trace, ranks, compute_s, begin, end)
        return next((name for name, other in known.get(end - begin, []) if are_similar(form, other, settings)), None)

    cuts, phases, n_known = [0], [], 0
    for begin, end in _grown(trace, found):
        name = found(begin, end)
        if name is None:
            name, n_known = n_known, n_known + 1
            known.setdefault(end - begin, []).append((name, form_of(trace, ranks, compute_s, begin, end)))
        cuts.append(end)
        phases.append(name)
    return np.array(cuts), np.array(phases, np.int64)


def _grown(trace: LogicalTrace, found: Search) -> Iterator[tuple[int, int]]:
    """Phases in order, as begin and end; `found` knows those yielded before."""
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
        elif tick > begin and found(begin, tick) is not None:
            yield begin, tick
            begin, seen = tick, {}
        seen |= dict.fromkeys(codes, tick)
    if begin < trace.n_ticks:
        yield begin, trace.n_ticks
