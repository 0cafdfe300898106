"""How long jobs will wait, from the waits of similar jobs, as of any instant: no queue is simulated.

A case is a job in the queue at an instant: at its submit, and again whenever it had waited for one of CHECKPOINTS_S.
A question is a case whose wait is not known yet. The nearest past cases answer it, weighted by nearness; those that
still wait at the question's instant, or left the queue unstarted, count as lower bounds (Kaplan and Meier 1958). The
outer quantiles are then moved by what past answers missed. All arrays of times are in s, UTC epoch or durations.
"""

from typing import NamedTuple

import numpy as np

from pipeline.arrays import Bools, Floats, Ints
from pipeline.estimate.history import History

LEVELS = (0.1, 0.5, 0.8, 0.95)
CHECKPOINTS_S = (0.0, 900.0, 3600.0, 14_400.0, 57_600.0, 230_400.0)

MOST_CASES, NEAREST, LEAST_CASES = 20_000, 60, 5
"""The newest cases that are compared; those that answer; and with fewer nothing is said."""

WINDOW_S, CALIBRATION_S = 30 * 86_400.0, 90 * 86_400.0
"""Jobs submitted longer before the instant are taken to have left; answers older than this calibrate nothing."""

SHRINK = 30.0
"""An offset of k past answers counts k / (k + SHRINK)."""

RECENT = 10
"""Latest known waits of jobs of half to twice the processors."""

SOON_S = 60.0
"""Added to durations before their logarithm: a wait of seconds is as good as none."""

UNKNOWN_REQUEST_S = 86_400.0

WEIGHTS = np.array([0.5, 0.5, 1.0, 0.5, 1.0, 0.5, 0.7, 1.0, 1.0, 1.0, 0.5, 0.3])
"""Of the columns of `features`: chosen by their scales, fitted to no log."""
OTHER_QUEUE = 1.0
"""Distance that another queue adds."""


class Cases(NamedTuple):
    """Jobs in the queue at instants, in order of instant."""

    job: Ints
    """Place in the history."""
    at_s: Floats
    features: Floats
    """(cases, features), weighted."""
    queue: Ints
    start_s: Floats
    """Infinite where the job did not start."""
    leave_s: Floats
    """When the job left the queue, started or not; infinite where it has not."""


class Answers(NamedTuple):
    """What was said of questions, and what became of them."""

    at_s: Floats
    said_s: Floats
    """(answers, levels): time left to wait."""
    start_s: Floats
    leave_s: Floats


def cases_of(past: History, capacity: float) -> Cases:
    """The cases of a history on `capacity` processors; each knows of the queue what was known at its instant."""
    leave_s = np.minimum(past.start_s, past.end_s)
    waits = [np.flatnonzero(leave_s - past.submit_s >= waited_s) for waited_s in CHECKPOINTS_S]
    job = np.concatenate(waits)
    at_s = past.submit_s[job] + np.repeat(CHECKPOINTS_S, [len(places) for places in waits])
    order = np.argsort(at_s, kind="stable")
    return questions(past, job[order], at_s[order], capacity)


def questions(past: History, job: Ints, at_s: Floats, capacity: float) -> Cases:
    """Jobs of the history at instants, at or after their submits and before they leave the queue."""
    rows = [features(past, one, when_s, capacity) for one, when_s in zip(job.tolist(), at_s.tolist(), strict=True)]
    leave_s = np.minimum(past.start_s, past.end_s)[job]
    weighted = np.array(rows).reshape(len(job), len(WEIGHTS)) * WEIGHTS
    return Cases(job, at_s, weighted, past.codes["queue"][job], past.start_s[job], leave_s)


def features(past: History, job: int, at_s: float, capacity: float) -> list[float]:
    """Size, request, time waited, load and hour of a job at an instant, from events up to then.

    The load: the requested work ahead of the job per processor; by how much processors fall short; how long the limits
    of running jobs say until the job, with and without those ahead, has room; recent waits; jobs of its submitter.
    """
    last = max(job, int(np.searchsorted(past.submit_s, at_s)))
    known = slice(int(np.searchsorted(past.submit_s, at_s - WINDOW_S)), last)
    start_s, end_s, procs = past.start_s[known], past.end_s[known], np.nan_to_num(past.procs[known], nan=1.0)
    other = np.arange(known.start, last) != job
    runs = other & (start_s <= at_s) & (end_s > at_s)
    waits = other & (start_s > at_s) & (end_s > at_s)
    ahead = waits & (np.arange(known.start, last) < job)
    limit_s = _known(past.requested_s[known], UNKNOWN_REQUEST_S)
    own, request_s = float(_known(past.procs[job], 1.0)), float(_known(past.requested_s[job], UNKNOWN_REQUEST_S))
    free = capacity - procs[runs].sum()
    needed = own + procs[ahead].sum()
    left_s = np.maximum(start_s[runs] + limit_s[runs] - at_s, 0.0)
    order = np.argsort(left_s)
    room, left_s = free + np.cumsum(procs[runs][order]), left_s[order]
    waited_s = at_s - past.submit_s[job]
    hour = 2 * np.pi * ((past.local_s[job] + waited_s) % 86_400) / 86_400
    is_weekend = (past.local_s[job] + waited_s) // 86_400 % 7 in (2, 3)
    alike = np.flatnonzero(other & (start_s <= at_s) & (procs >= own / 2) & (procs <= own * 2))
    newest = alike[np.argsort(start_s[alike], kind="stable")[-RECENT:]]
    recent_s = float(np.median(start_s[newest] - past.submit_s[known][newest])) if len(newest) else 0.0
    who = past.codes["who"]
    of_user = np.count_nonzero((runs | waits) & (who[known] == who[job])) if who[job] >= 0 else 0
    return [
        float(np.log2(own)), float(np.log(request_s)), _log(waited_s),
        _log((procs[ahead] * limit_s[ahead]).sum() / capacity), float(np.clip((needed - free) / capacity, -1, 3)),
        _log(_room_s(room, left_s, free, needed)), _log(_room_s(room, left_s, free, own)),
        float(np.sin(hour)), float(np.cos(hour)), float(is_weekend), _log(recent_s), float(np.log1p(of_user)),
    ]  # fmt: skip


def _known(values: Floats, otherwise: float) -> Floats:
    return np.where(values > 0, values, otherwise)


def _log(duration_s: float) -> float:
    return float(np.log(duration_s + SOON_S))


def _room_s(room: Floats, left_s: Floats, free: float, needed: float) -> float:
    """When limits have freed the processors needed; where they never do, when they have freed all."""
    if needed <= free or not len(left_s):
        return 0.0
    return float(left_s[min(int(np.searchsorted(room, needed)), len(left_s) - 1)])


def wait_quantiles(past: Cases, asked: Cases, levels: tuple[float, ...] = LEVELS) -> Floats:
    """(questions, levels): time left to wait; NaN where fewer than LEAST_CASES are known at the question's instant."""
    found = np.full((len(asked.job), len(levels)), np.nan)
    for row, at_s in enumerate(asked.at_s.tolist()):
        last = int(np.searchsorted(past.at_s, at_s))
        near = slice(max(last - MOST_CASES, 0), last)
        if last - near.start < LEAST_CASES:
            continue
        distance = np.sqrt(((past.features[near] - asked.features[row]) ** 2).sum(axis=1))
        distance += OTHER_QUEUE * (past.queue[near] != asked.queue[row])
        # Of its own past the job knows only that it waited, as its features say.
        distance[past.job[near] == asked.job[row]] = np.inf
        chosen = np.argsort(distance, kind="stable")[:NEAREST]
        chosen = chosen[np.isfinite(distance[chosen])]
        if len(chosen) < LEAST_CASES:
            continue
        weight = 1.0 - distance[chosen] / (1.05 * distance[chosen[-1]] + 1e-9)
        wait_s, is_known = left_to_wait(past.at_s, past.start_s, past.leave_s, near.start + chosen, at_s)
        found[row] = survivor_quantiles(wait_s, is_known, weight, levels)
    return found


def left_to_wait(case_s: Floats, start_s: Floats, leave_s: Floats, places: Ints, at_s: float) -> tuple[Floats, Bools]:
    """What is known by an instant of the waits from the cases' instants on, and whether that is the whole wait."""
    until_s = np.minimum(leave_s[places], at_s)
    return until_s - case_s[places], start_s[places] <= until_s


def survivor_quantiles(values: Floats, is_known: Bools, weight: Floats, levels: tuple[float, ...]) -> Floats:
    """Quantiles of weighted values of which some are lower bounds; beyond the last known value, the largest of all."""
    order = np.lexsort((~is_known, values))
    values, is_known, weight = values[order], is_known[order], weight[order]
    at_risk = np.cumsum(weight[::-1])[::-1]
    reached = 1.0 - np.cumprod(1.0 - np.where(is_known, weight / at_risk, 0.0))
    places = np.searchsorted(reached, np.array(levels) - 1e-12)
    return np.append(values, values[-1])[places]


def offsets(answers: Answers, at_s: float, levels: tuple[float, ...] = LEVELS) -> Floats:
    """(levels,): what past answers missed by an instant, as log of wait + SOON_S, and 0 at the median.

    An offset is the level's quantile of what the level's answers missed, shrunk where few are known.
    """
    moved, since_s = np.zeros(len(levels)), at_s - CALIBRATION_S
    places = np.flatnonzero((answers.at_s < at_s) & (answers.at_s >= since_s) & ~np.isnan(answers.said_s[:, 0]))
    if not len(places):
        return moved
    wait_s, is_known = left_to_wait(answers.at_s, answers.start_s, answers.leave_s, places, at_s)
    n_known = np.count_nonzero(is_known)
    for place, level in enumerate(levels):
        if level != 0.5:
            missed = np.log(wait_s + SOON_S) - np.log(answers.said_s[places, place] + SOON_S)
            off = survivor_quantiles(missed, is_known, np.ones(len(missed)), (level,))[0]
            moved[place] = off * n_known / (n_known + SHRINK)
    return moved


def calibrated(answers: Answers, levels: tuple[float, ...] = LEVELS) -> Floats:
    """(answers, levels): each answer, in order of instant, moved by the offsets known at its instant."""
    moved = np.array([offsets(answers, at_s, levels) for at_s in answers.at_s.tolist()])
    found = (answers.said_s + SOON_S) * np.exp(moved.reshape(answers.said_s.shape)) - SOON_S
    return np.maximum.accumulate(np.maximum(found, 0.0), axis=1)
