"""The replay with moldable jobs in plain Python: every sum anew at every event, no heaps and no arrays kept."""

from dataclasses import dataclass, field
from math import inf

import numpy as np

from benchmarks.moldable_engine import Choices
from pipeline.schedule.workload import Workload

Choice = tuple[int, int, int]
"""Processors, true runtime, planned runtime."""


@dataclass
class PlainMoldable:
    """The state of a replay; results by job."""

    capacity: int
    options: list[list[Choice]]
    weight: float
    ahead: float
    now: int = 0
    waiting: list[int] = field(default_factory=list)
    running: list[int] = field(default_factory=list)
    start: dict[int, int] = field(default_factory=dict)
    taken: dict[int, Choice] = field(default_factory=dict)
    planned: dict[int, int] = field(default_factory=dict)
    ended: list[int] = field(default_factory=list)

    def planned_end(self, job: int) -> int:
        return self.start[job] + self.planned[job]

    def free_at(self, time: int) -> int:
        """The processors that the plan says are free at a time from now on."""
        return self.capacity - sum(self.taken[job][0] for job in self.running if self.planned_end(job) > time)

    def cost(self, choice: Choice) -> float:
        return choice[2] * (1.0 + self.weight / self.capacity * (len(self.waiting) - 1 + self.ahead) * choice[0])

    def begin(self, procs: int) -> int:
        times = sorted({self.now, *(self.planned_end(job) for job in self.running if self.planned_end(job) > self.now)})
        return next(time for time in times if self.free_at(time) >= procs)

    def put(self, job: int, choice: Choice) -> None:
        self.start[job], self.taken[job], self.planned[job] = self.now, choice, choice[2]
        self.waiting.remove(job)
        self.running.append(job)

    def start_jobs(self) -> None:
        while self.waiting:
            head = self.waiting[0]
            best = min(self.options[head], key=lambda one: self.begin(one[0]) - self.now + self.cost(one))
            shadow = self.begin(best[0])
            if shadow > self.now:
                break
            self.put(head, best)
        if not self.waiting:
            return
        extra = self.free_at(shadow) - best[0]
        for job in self.waiting[1:]:
            fits = [
                one for one in self.options[job]
                if one[0] <= self.free_at(self.now) and (self.now + one[2] <= shadow or one[0] <= extra)
            ]  # fmt: skip
            later = min(self.cost(one) + (shadow - self.now) for one in self.options[job])
            choice = min(fits, key=self.cost, default=None)
            if choice is not None and self.cost(choice) <= later:
                extra -= choice[0] if self.now + choice[2] > shadow else 0
                self.put(job, choice)


def plain_moldable(work: Workload, choices: Choices, weight: float, ahead: float) -> PlainMoldable:
    """The replay: at one second plans are corrected, then jobs are submitted, then jobs end in the order of starts."""
    rows = list(zip(choices.procs.tolist(), choices.run_s.tolist(), choices.planned_s.tolist(), strict=True))
    bounds = choices.offsets.tolist()
    options = [rows[bounds[job] : bounds[job + 1]] for job in range(len(work))]
    state = PlainMoldable(work.capacity, options, weight, ahead)
    submits = work.submit_s.tolist()
    while len(state.ended) < len(submits):
        ending = min(state.running, key=lambda job: state.start[job] + state.taken[job][1], default=None)
        next_end = inf if ending is None else state.start[ending] + state.taken[ending][1]
        arriving = len(state.start) + len(state.waiting)
        next_submit = submits[arriving] if arriving < len(submits) else inf
        state.now = int(min(next_end, next_submit))
        for job in state.running:
            while state.planned[job] < state.taken[job][1] and state.planned_end(job) <= state.now:
                state.planned[job] *= 2
        if next_submit == state.now:
            state.waiting.append(arriving)
        elif ending is not None:
            state.running.remove(ending)
            state.ended.append(ending)
        if state.waiting:
            state.start_jobs()
    return state


def rigid_choices(work: Workload) -> Choices:
    """Every job on its own count alone, planned with its request."""
    return Choices(np.arange(len(work) + 1), work.procs, work.run_s, work.request_s)
