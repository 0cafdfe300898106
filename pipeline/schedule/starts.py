"""Expected starts: quantiles of what is left to wait, from similar past cases, with the record of each way to answer.

Two ways answer: by cases of all features, with the queue simulated, and by cases without the simulation. In each, a
forest grown on past cases says how similar they are to a question, and their weighted waits are its quantiles; those
that still wait are lower bounds (Kaplan and Meier 1958), and jobs that left the queue unstarted do not count. A record
of past answers, each made from what was known at its instant, calibrates them and says which way answers in a queue.
Where many jobs start at once, the place of such a wait among the quantiles is drawn (Smith 1985: the randomised
transform).
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from pipeline.arrays import Bools, Floats, Ints
from pipeline.forest import Forest, grown, leaves, similarity
from pipeline.schedule.start_cases import FEATURES, SIMULATED, SOON_S, Cases, logs

LEVELS = (0.1, 0.5, 0.8, 0.95)
"""The quantiles that are told."""

GRID = np.array([*np.arange(1, 20) / 20, 0.975, 0.99])
"""The quantiles of which calibrated ones are made."""

MOST_CASES, LEAST_CASES = 8_000, 200
"""The newest cases that are compared; with fewer than the least nothing is said."""

WAYS = {"simulation": slice(None), "similar": slice(SIMULATED, None)}
"""By way the features that it uses."""

REFIT_CASES = 600
"""Cases answered by one forest while a record is made."""

CALIBRATION_S, PRIOR_CASES = 90 * 86_400.0, 100
"""Older answers calibrate nothing; cases without error that are added, of 30, 100 and 300 chosen on SDSC-DS."""

LONG_S = 4 * 3600.0
"""Jobs that have waited for longer are calibrated apart."""

LEAST_ANSWERS = 30
"""Answers in a queue with which its own record says the way; else the record of all queues does."""

_TURN = (5**0.5 - 1) / 2


class Way(NamedTuple):
    """Past cases with a forest."""

    cases: Cases
    forest: Forest
    leaf: Ints

    @classmethod
    def of(cls, cases: Cases, columns: slice, n_grown: int, known_s: float) -> "Way":
        """The forest is grown on what was known at an instant of the first cases; the later ones are sorted into it."""
        own = cases._replace(features=cases.features[:, columns])
        wait = logs(own.take(slice(n_grown)).left_s(known_s)[0])
        forest = grown(own.features[:n_grown], wait - wait.mean())
        return cls(own, forest, leaves(forest, own.features))

    def said_s(self, asked: Cases, columns: slice) -> Floats:
        """(questions, GRID): time left to wait."""
        found = np.empty((len(asked.at_s), len(GRID)))
        for row, leaf in enumerate(leaves(self.forest, asked.features[:, columns]).T):
            at_s = float(asked.at_s[row])
            n_known = int(np.searchsorted(self.cases.at_s, at_s))
            weight = similarity(self.leaf, n_known, leaf)
            # Of its own past the job knows only that it waited, as its features say.
            is_other = self.cases.submit_s[:n_known] != asked.submit_s[row]
            has_left = self.cases.has_left(at_s)[:n_known]
            chosen = np.flatnonzero((weight > 0) & is_other & ~has_left)
            chosen = chosen if len(chosen) else np.flatnonzero(weight)
            wait_s, is_known = self.cases.take(chosen).left_s(at_s)
            found[row] = survivor_quantiles(wait_s, is_known, weight[chosen], GRID)
        return found


def survivor_quantiles(values: Floats, is_known: Bools, weight: Floats, levels: Floats) -> Floats:
    """Quantiles of weighted values of which some are lower bounds; beyond the last known value, the largest of all."""
    order = np.lexsort((~is_known, values))
    values, is_known, weight = values[order], is_known[order], weight[order]
    at_risk = np.cumsum(weight[::-1])[::-1]
    reached = 1.0 - np.cumprod(1.0 - np.where(is_known, weight / at_risk, 0.0))
    places = np.searchsorted(reached, levels - 1e-12)
    return np.append(values, values[-1])[places]


class Record(NamedTuple):
    """What was said of cases, each from what was known at its instant, and what became of them."""

    cases: Cases
    said_s: Floats
    """(ways, cases, GRID): time left to wait."""

    def known(self, at_s: float) -> "Record":
        """The answers that calibrate at an instant."""
        chosen = np.flatnonzero((self.cases.at_s < at_s) & (self.cases.at_s >= at_s - CALIBRATION_S))
        return Record(self.cases.take(chosen), self.said_s[:, chosen])


def record_of(cases: Cases, first: int = LEAST_CASES) -> Record:
    """What is said of the cases from the first one on; forests are grown anew for each REFIT_CASES."""
    found = []
    for start in range(first, len(cases.at_s), REFIT_CASES):
        known, asked = slice(max(start - MOST_CASES, 0), start + REFIT_CASES), slice(start, start + REFIT_CASES)
        ways = [Way.of(cases.take(known), one, start - known.start, float(cases.at_s[start])) for one in WAYS.values()]
        found.append([way.said_s(cases.take(asked), one) for way, one in zip(ways, WAYS.values(), strict=True)])
    blank = np.empty((len(WAYS), 0, len(GRID)))
    said_s = np.concatenate([blank, *(np.array(one) for one in found)], axis=1)
    return Record(cases.take(slice(first, None)), said_s)


def has_record(record: Record, at_s: float) -> bool:
    """Whether enough answers are known at an instant."""
    return len(record.known(at_s).cases.at_s) >= LEAST_ANSWERS


def figures(record: Record, at_s: float) -> dict[str, float]:
    """How the answers with the simulation have held, as far as it is known at an instant: their number, the shares of
    starts by the 80 and 95% quantiles before calibration, and the median error, s; empty without a record."""
    known = record.known(at_s)
    wait_s, is_known = known.cases.left_s(at_s)
    if not is_known.any():
        return {}
    said_s, wait_s = at_levels(known.said_s[0, is_known], np.array(LEVELS)), wait_s[is_known]
    held = (wait_s[:, None] <= said_s).mean(axis=0).tolist()
    error_s = float(np.median(np.abs(said_s[:, LEVELS.index(0.5)] - wait_s)))
    return {"n_scored": len(wait_s), "held_q80": held[2], "held_q95": held[3], "median_error_s": error_s}


def answers(record: Record, asked: Cases, said_s: Callable[[int, Ints], Floats], at_s: float) -> tuple[Floats, Ints]:
    """(questions, LEVELS) calibrated times left to wait, and the place among WAYS of the one that answers.

    `said_s` gives what a way says of some questions, (questions, GRID). Of the record only what was known at the
    instant is used.
    """
    known = record.known(at_s)
    way, waited = _best_way(known, asked.features[:, -1], at_s), _waited(asked)
    found = np.empty((len(asked.at_s), len(LEVELS)))
    for nth in np.unique(way).tolist():
        whole_s = np.full((len(asked.at_s), len(GRID)), np.nan)
        whole_s[way == nth] = said_s(nth, np.flatnonzero(way == nth))
        for one in np.unique(waited[way == nth]).tolist():
            rows, own = (way == nth) & (waited == one), _waited(known.cases) == one
            found[rows] = at_levels(whole_s[rows], _calibrated(known.said_s[nth, own], known.cases.take(own), at_s))
    return found, way


def at_levels(said_s: Floats, levels: Floats) -> Floats:
    """(questions, levels) of quantiles at GRID."""
    found: Floats = np.array([np.interp(levels, GRID, row) for row in logs(said_s)]).reshape(-1, len(levels))
    return np.maximum(np.exp(found) - SOON_S, 0.0)


def pinball_s(said_s: Floats, left_s: Floats, levels: Floats) -> Floats:
    """(questions,): the mean loss over the levels, s."""
    off_s = left_s[:, None] - said_s
    loss_s: Floats = np.maximum(levels * off_s, (levels - 1.0) * off_s).mean(axis=1)
    return loss_s


def _waited(cases: Cases) -> Ints:
    """The class of each job by the time it has waited: asked about at its submit, up to LONG_S, longer."""
    return np.searchsorted(logs(np.array([1.0, LONG_S])), cases.features[:, FEATURES.index("waited")], side="right")


def _best_way(known: Record, queue: Floats, at_s: float) -> Ints:
    """Per question the way with the least loss in its queue."""
    wait_s, is_known = known.cases.left_s(at_s)
    loss_s = np.array([pinball_s(said_s[is_known], wait_s[is_known], GRID) for said_s in known.said_s])
    of_queue = known.cases.features[is_known, -1]
    best = {}
    for one in np.unique(queue).tolist():
        own = of_queue == one if (of_queue == one).sum() >= LEAST_ANSWERS else np.ones(len(of_queue), np.bool_)
        best[one] = int(loss_s[:, own].sum(axis=1).argmin())
    return np.array([best[one] for one in queue.tolist()], np.int64)


def _calibrated(said_s: Floats, cases: Cases, at_s: float) -> Floats:
    """The levels of GRID's distribution below which shares LEVELS of the outcomes lay.

    The outcome of a job that still waits lies anywhere beyond its wait so far; without such jobs answers are early.
    """
    wait_s, is_known = cases.left_s(at_s)
    edges = np.array([0.0, *GRID, 1.0])
    low, high = (compare(said_s, wait_s[:, None]).sum(axis=1) for compare in (np.less, np.less_equal))
    first, last = edges[np.where(is_known, low, high)], np.where(is_known, edges[high + 1], 1.0)
    place = first + _TURN * np.arange(len(wait_s)) % 1.0 * (last - first)
    evenly = (np.arange(PRIOR_CASES) + 0.5) / PRIOR_CASES
    counted = place[~cases.has_left(at_s)]
    found: Floats = np.quantile(np.concatenate([counted, evenly]), LEVELS)
    return found
