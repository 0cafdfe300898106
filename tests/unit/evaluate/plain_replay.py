"""Replays in plain Python, as short and as slow as the definitions: the kernels must give the same starts.

Every event is in a queue, nothing is kept between scheduling passes, and every sum is computed anew.
"""

import heapq
from itertools import count

import numpy as np

from pipeline.schedule.engine import Policy, ReplayOptions
from pipeline.schedule.workload import Workload

STEPS_MIN = [1, 5, 15, 30, 60, 120, 300, 600, 1200, 3000, 6000]
EXPIRY, ROUND, SUBMIT, END, PLANNED_START = range(5)


class PlainReplay:
    """The jobs, the queue of events, and FCFS, EASY and EASY_SJBF."""

    def __init__(self, work: Workload, options: ReplayOptions, limits_s=None, order=None) -> None:
        self.submit, self.run = work.submit_s.tolist(), work.run_s.tolist()
        self.request, self.procs, self.user = work.request_s.tolist(), work.procs.tolist(), work.user.tolist()
        self.rules = options.rules
        steps = [[] for _ in self.request] if limits_s is None else np.ceil(limits_s).reshape(len(work), -1).tolist()
        self.limits = [
            [min(max(1, int(step)), request) for step in own] + [request]
            for own, request in zip(steps, self.request, strict=True)
        ]
        self.planned = [own[0] for own in self.limits]
        self.first = list(self.planned)
        self.order = list(self.planned) if order is None else list(order)
        self.capacity, self.options, self.number = work.capacity, options, count()
        self.start, self.expected, self.backfilled, self.n_longer = {}, {}, set(), dict.fromkeys(range(len(work)), 0)
        self.waiting, self.running, self.ended, self.of_user = [], [], [], {}
        self.events = []
        for job, time in enumerate(self.submit):
            self.plan_event(time, SUBMIT, job)

    def plan_event(self, time, kind, job):
        heapq.heappush(self.events, (time, kind, next(self.number), job))

    def go(self) -> "PlainReplay":
        while self.events:
            time, kind, _, job = heapq.heappop(self.events)
            if kind == EXPIRY and self.start[job] + self.planned[job] == time:
                self.correct(job, time)
            if kind == ROUND:
                self.look(job, time)
            if kind in (EXPIRY, ROUND) or self.is_outdated(kind, job, time):
                continue
            if kind == SUBMIT:
                self.arrive(job, time)
            elif kind == END:
                self.running.remove(job)
                self.ended.append(job)
                self.of_user.setdefault(self.user[job], []).append(self.run[job])
                self.leave(job, time)
            self.schedule(time)
        return self

    def is_outdated(self, kind, job, time):
        return False

    def arrive(self, job, time):
        if self.options.learns_last_two:
            last = self.of_user.get(self.user[job], [])[-2:] if self.user[job] >= 0 else []
            self.planned[job] = min(sum(last) // 2, self.request[job]) if len(last) == 2 else self.request[job]
            self.first[job] = self.order[job] = self.planned[job]
            steps = [self.planned[job] + 60 * minutes for minutes in STEPS_MIN]
            self.limits[job] = [min(one, self.request[job]) for one in [self.planned[job], *steps, self.request[job]]]
        self.waiting.append(job)

    def leave(self, job, time):
        pass

    def correct(self, job, time):
        self.plan_longer(job)
        self.expect_expiry(job)

    def plan_longer(self, job):
        self.n_longer[job] += 1
        self.planned[job] = self.limits[job][min(self.n_longer[job], len(self.limits[job]) - 1)]

    def look(self, job, time):
        """A round of the guard, for one job."""
        if job in self.running and self.planned[job] < self.request[job]:
            if self.start[job] + self.planned[job] - time < self.rules.margin_s:
                self.plan_longer(job)
            self.plan_event(time + int(self.rules.round_s), ROUND, job)

    def expect_expiry(self, job):
        if self.rules is not None:
            round_s, zero = int(self.rules.round_s), self.submit[0]
            self.plan_event(zero + -(-(self.start[job] - zero) // round_s) * round_s, ROUND, job)
        elif self.planned[job] < self.run[job]:
            self.plan_event(self.start[job] + self.planned[job], EXPIRY, job)

    def begin(self, job, time):
        self.start[job] = time
        self.waiting.remove(job)
        self.running.append(job)
        self.plan_event(time + self.run[job], END, job)
        self.expect_expiry(job)

    def free_at(self, time, lengths):
        return self.capacity - sum(self.procs[j] for j in self.running if self.start[j] + lengths[j] > time)

    def shadow(self, job, lengths):
        """When the head fits, and how many processors are left then."""
        for time in sorted(self.start[j] + lengths[j] for j in self.running):
            if self.free_at(time, lengths) >= self.procs[job]:
                return time, self.free_at(time, lengths) - self.procs[job]
        raise AssertionError("a job larger than the machine")

    def schedule(self, time):
        while self.waiting and self.procs[self.waiting[0]] <= self.free_at(time, self.planned):
            self.begin(self.waiting[0], time)
        if not self.waiting:
            return
        head, lengths = self.waiting[0], self.planned
        if self.rules is not None:
            self.expected.setdefault(head, self.shadow(head, self.planned)[0])
            patience_s = self.rules.patience_s + self.rules.patience_share * self.request[head]
            if time > self.expected[head] + patience_s:
                lengths = self.request
                for job in self.running:
                    if self.start[job] + self.planned[job] > time:
                        self.planned[job] = self.request[job]
        if self.options.policy is Policy.FCFS:
            return
        shadow, spare = self.shadow(head, self.planned)
        by_key = self.options.policy is Policy.EASY_SJBF
        for job in sorted(self.waiting[1:], key=(lambda j: self.order[j]) if by_key else None):
            ends_in_time = time + lengths[job] <= shadow
            if self.procs[job] <= self.free_at(time, self.planned) and (ends_in_time or self.procs[job] <= spare):
                self.begin(job, time)
                self.backfilled.add(job)
                spare -= 0 if ends_in_time else self.procs[job]


class PlainConservative(PlainReplay):
    """CONSERVATIVE: every waiting job has a planned start."""

    def __init__(self, *given, **options) -> None:
        super().__init__(*given, **options)
        self.reserved = {}

    def holds(self, without=None):
        """Begin, end and processors of every job that runs or has a planned start."""
        for job in self.running + list(self.reserved):
            if job != without:
                begin = self.start.get(job, self.reserved.get(job))
                yield begin, begin + self.planned[job], self.procs[job]

    def fits(self, job, begin):
        holds = list(self.holds(without=job))
        times = [begin] + [b for b, _, _ in holds if begin < b < begin + self.planned[job]]
        return all(sum(p for b, e, p in holds if b <= t < e) + self.procs[job] <= self.capacity for t in times)

    def earliest(self, job, time):
        ends = sorted(end for _, end, _ in self.holds(without=job) if end > time)
        return next(begin for begin in [time, *ends] if self.fits(job, begin))

    def reserve(self, job, begin):
        self.reserved[job] = begin
        self.plan_event(begin, PLANNED_START, job)

    def is_outdated(self, kind, job, time):
        return kind == PLANNED_START and self.reserved.get(job) != time

    def arrive(self, job, time):
        super().arrive(job, time)
        self.reserve(job, self.earliest(job, time))

    def leave(self, job, time):
        if self.start[job] + self.planned[job] > time:
            for waiting in self.waiting:
                begin = self.earliest(waiting, time)
                if begin < self.reserved[waiting]:
                    self.reserve(waiting, begin)

    def schedule(self, time):
        for job in list(self.waiting):
            if self.reserved[job] == time:
                self.backfilled |= {job} if job != self.waiting[0] else set()
                self.begin(job, time)
                del self.reserved[job]


def plain_replay(work: Workload, options: ReplayOptions, limits_s=None, order=None) -> PlainReplay:
    """The replay, done: start, expected, backfilled, n_longer and ended."""
    kind = PlainConservative if options.policy is Policy.CONSERVATIVE else PlainReplay
    return kind(work, options, limits_s, order).go()
