"""Finds the repeating phases of an MPI run: MPI_CALLS in, PHASES and PHASE_POINTS out."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.core.buffers import arrow
from pipeline.core.phase_settings import Pas2pSettings, PhasePlanSettings, PhaseSettings
from pipeline.core.phase_tables import PHASE_POINTS, PHASES
from pipeline.core.report import Report, Tally
from pipeline.phases.pas2p.each_tick import search_each_tick
from pipeline.phases.pas2p.events import Events, find_events
from pipeline.phases.pas2p.forms import name_phases
from pipeline.phases.pas2p.kernels import grown_phases
from pipeline.phases.pas2p.levels import Sequence, joined
from pipeline.phases.pas2p.logical_trace import LogicalTrace, logical_trace
from pipeline.phases.pas2p.progress import Boundaries, boundaries
from pipeline.phases.prediction.relevance import relevant
from pipeline.phases.prediction.repetition import sampled_share

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _Clock:
    """Times of events (of all calls: `ends_s`) from the start of the run, s."""

    ends_s: Floats
    compute_s: Floats
    runtime_s: float


def find_phases(calls: pa.Table, trace_id: str, settings: PhaseSettings) -> tuple[pa.Table, pa.Table, Report]:
    """PHASES and PHASE_POINTS of a run, and a Report of its calls.

    Times are seconds. The occurrences' times, each the mean over ranks, add up to the run's time. InputError where the
    ranks' calls contradict one another.

    Source: Wong, Rexachs and Luque, IEEE TPDS 26(7), 2014, Sections 3.2 and 3.3; settings say where we depart from it.
    """
    events = find_events(calls)
    trace = logical_trace(calls, events, settings.pas2p)
    clock = _clock(calls, events)
    sequence = _chosen(_sequences(events, trace, clock, settings.pas2p), trace, settings)
    passed = boundaries(events, trace, clock.ends_s, sequence.cuts, clock.runtime_s)
    phases = _phases_table(sequence, trace, passed, trace_id, settings)
    facts = {
        "ranks": len(events.starts) - 1, "events": len(events), "unmatched": events.n_unmatched,
        "open_receives": events.n_open, "ticks": trace.n_ticks, "phases": phases.num_rows,
        "occurrences": len(sequence.phase), "level": sequence.level, "runtime_s": clock.runtime_s,
    }  # fmt: skip
    rows = Tally(calls.num_rows)
    report = Report("find_phases", "call", rows, rows, facts=facts)
    return phases, _points_table(sequence, passed, trace_id), report


def _clock(calls: pa.Table, events: Events) -> _Clock:
    starts_s, ends_s = calls.column("t_start_s").to_numpy(), calls.column("t_end_s").to_numpy()
    zero_s = float(starts_s.min())
    first_row = np.searchsorted(calls.column("rank").to_numpy(), np.arange(len(events.starts) - 1))
    done = first_row[events.rank] + events.call
    before_s = np.where(events.call > 0, ends_s[done - 1], zero_s)
    return _Clock(ends_s[done] - zero_s, np.maximum(starts_s[done] - before_s, 0.0), float(ends_s.max()) - zero_s)


def _sequences(events: Events, trace: LogicalTrace, clock: _Clock, settings: Pas2pSettings) -> list[Sequence]:
    """The run as phases, then as phases joined once more at each further level."""
    ranks, compute_s = events.rank[trace.event], clock.compute_s[trace.event]
    if settings.search_each_tick:
        cuts, phase = search_each_tick(trace, ranks, compute_s, settings)
    else:
        cuts = grown_phases(trace.starts, trace.code, trace.n_codes)
        phase = name_phases(trace, ranks, compute_s, cuts, settings)
    found = [Sequence(0, phase, cuts)]
    for _ in range(settings.max_level):
        found.append(joined(found[-1]))
    return found


def _chosen(sequences: list[Sequence], trace: LogicalTrace, settings: PhaseSettings) -> Sequence:
    """The level with the smallest plan among those of few phases, else that of the fewest phases.

    Events decide, not times, so that all machines give the same phases.
    """
    few = [one for one in sequences if one.phase.max() < settings.pas2p.most_phases]
    if not few:
        return min(sequences, key=lambda one: int(one.phase.max()))
    return min(few, key=lambda one: _events_to_time(one, trace, settings.plan))


def _events_to_time(sequence: Sequence, trace: LogicalTrace, settings: PhasePlanSettings) -> float:
    n_occurrences = np.bincount(sequence.phase)
    events = np.bincount(sequence.phase, np.diff(trace.starts[sequence.cuts]))
    return sampled_share(n_occurrences, events / n_occurrences, settings)


def _phases_table(
    sequence: Sequence, trace: LogicalTrace, passed: Boundaries, trace_id: str, settings: PhaseSettings
) -> pa.Table:
    n_occurrences = np.bincount(sequence.phase)
    first = np.unique(sequence.phase, return_index=True)[1]
    times_s = np.bincount(sequence.phase, np.diff(passed.time_s, axis=0).mean(axis=1))
    shares = times_s / times_s.sum() if times_s.sum() > 0 else np.full(len(first), 1 / len(first))
    pas2p, plan = settings.pas2p, settings.plan
    return PHASES.build(
        trace_id=[trace_id] * len(first), phase_id=arrow(np.arange(len(first))),
        level=[sequence.level] * len(first), ticks=arrow(np.diff(sequence.cuts)[first]),
        events=arrow(np.bincount(sequence.phase, np.diff(trace.starts[sequence.cuts])) / n_occurrences),
        n_occurrences=arrow(n_occurrences), time_s=arrow(times_s), share=arrow(shares),
        is_relevant=arrow(relevant(shares, pas2p.relevant_share, pas2p.least_coverage)),
        repetitive=arrow(n_occurrences > plan.repetition_samples * (1 + plan.warmup)),
    )  # fmt: skip


def _points_table(sequence: Sequence, passed: Boundaries, trace_id: str) -> pa.Table:
    n_ranks, n = passed.call.shape[1], len(sequence.phase)
    order = np.argsort(sequence.phase, kind="stable")
    occurrence = np.empty(n, np.int64)
    ordered = sequence.phase[order]
    occurrence[order] = np.arange(n) - np.searchsorted(ordered, ordered, "left")
    begins, ends = passed.call[:-1][order].ravel(), passed.call[1:][order].ravel()
    return PHASE_POINTS.build(
        trace_id=pa.array([trace_id] * 1).take(pa.array(np.zeros(n * n_ranks, np.int64))),
        phase_id=arrow(np.repeat(ordered, n_ranks)), occurrence=arrow(np.repeat(occurrence[order], n_ranks)),
        position=arrow(np.repeat(order, n_ranks)), rank=arrow(np.tile(np.arange(n_ranks), n)),
        from_event=arrow(begins, begins < 0), to_event=arrow(ends, ends < 0),
        t_start_s=arrow(passed.time_s[:-1][order].ravel()), t_end_s=arrow(passed.time_s[1:][order].ravel()),
    )  # fmt: skip
