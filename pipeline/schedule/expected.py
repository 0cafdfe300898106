"""A queue's answers: when each waiting job is expected to start, and how long each running one still runs."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from pipeline.arrays import Floats, Ints
from pipeline.schedule.forward import simulated
from pipeline.schedule.queue_record import QueueRecord
from pipeline.schedule.queues import Log, Queue
from pipeline.schedule.start_cases import Questions
from pipeline.schedule.starts import LEVELS, WAYS, Way, answers, has_record
from pipeline.schedule.time_left import UNCALIBRATED, calibration, time_left

ALONE = "draws"
"""The way that answers without a record: the simulation's own draws, which hold less than they say."""

N_DRAWS = 200


class Expected(NamedTuple):
    """The answers to a queue; times in s from its instant."""

    queue: Queue
    start_s: Floats
    """(waiting jobs, LEVELS)"""
    way: list[str]
    """Per waiting job what answered."""
    left_s: Floats
    """(running jobs, LEFT_SHARES)"""


def expected(queue: Queue, found: QueueRecord | None) -> Expected:
    """The answers to a queue, from the record of the site's past where there is one."""
    start_s, way = starts(queue, np.arange(len(queue.waits)), found)
    log = queue.log
    known = calibration(found.outcomes, queue.at_s) if found else UNCALIBRATED
    asked_s = np.where(log.past.requested_s > 0, log.past.requested_s, np.nan)[queue.runs]
    return Expected(queue, start_s, way, time_left(log.quantiles_s[queue.runs], queue.elapsed_s, asked_s, known))


def starts(queue: Queue, chosen: Ints, found: QueueRecord | None) -> tuple[Floats, list[str]]:
    """(jobs, LEVELS) times left to wait of these places among the waiting jobs, s, and what answered each."""
    if not len(chosen):
        return np.empty((0, len(LEVELS))), []
    if found is None or not has_record(found.record, queue.at_s):
        draws_s = simulated(queue, N_DRAWS, orders=1).draws_s[0][:, chosen]
        return np.quantile(draws_s, LEVELS, axis=0).T, [ALONE] * len(chosen)
    asked, names, columns = Questions(queue.log).asked(queue, chosen), list(WAYS), list(WAYS.values())

    def said(nth: int, rows: Ints) -> Floats:
        way = Way.of(found.cases, columns[nth], len(found.cases.at_s), found.as_of_s)
        return way.said_s(asked.take(rows), columns[nth])

    answer_s, way = answers(found.record, asked, said, queue.at_s)
    return answer_s, [names[one] for one in way.tolist()]


def with_another(queue: Queue, place: int) -> Queue:
    """The queue with a job of the history that is submitted at its instant, after all others."""
    return replace(queue, waits=np.append(queue.waits, place), priority=np.append(queue.priority, np.nan))


def queue_now(log: Log, at_s: float, told: Ints, priority: Floats) -> Queue:
    """The queue of the jobs that a scheduler tells (places, in order of submit), with priorities by job of the log."""
    has_started = np.isfinite(log.past.start_s[told])
    runs, waits = told[has_started], told[~has_started]
    return Queue(log, at_s, runs, waits, priority[waits])
