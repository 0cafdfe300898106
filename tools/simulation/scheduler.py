"""When jobs start on a machine of limited size: first come first served, with EASY backfilling."""

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from tools.simulation.workload import Job


def scheduled(jobs: Sequence[Job], max_procs: int) -> list[Job]:
    """The jobs with their waits, in order of submit; at no second do they hold more than `max_procs` processors."""
    arrivals = deque(sorted(range(len(jobs)), key=lambda i: jobs[i].submit_s))
    order = list(arrivals)
    machine = _Machine(jobs, max_procs)
    while arrivals or machine.waiting:
        now_s = min(
            jobs[arrivals[0]].submit_s if arrivals else machine.running[0][0],
            machine.running[0][0] if machine.running else jobs[arrivals[0]].submit_s,
        )
        machine.release(now_s)
        while arrivals and jobs[arrivals[0]].submit_s <= now_s:
            machine.waiting.append(arrivals.popleft())
        machine.start_what_may(now_s)
    return [replace(jobs[i], wait_s=machine.starts_s[i] - jobs[i].submit_s) for i in order]


class _Machine:
    """Free processors, the running jobs as a heap of (end, job), the waiting ones in order."""

    def __init__(self, jobs: Sequence[Job], max_procs: int) -> None:
        self.jobs = jobs
        self.free = max_procs
        self.running: list[tuple[int, int]] = []
        self.waiting: list[int] = []
        self.starts_s: dict[int, int] = {}

    def release(self, now_s: int) -> None:
        while self.running and self.running[0][0] <= now_s:
            self.free += self.jobs[heapq.heappop(self.running)[1]].procs

    def start_what_may(self, now_s: int) -> None:
        while self.waiting and self.jobs[self.waiting[0]].procs <= self.free:
            self._start(self.waiting.pop(0), now_s)
        if self.waiting:
            self._backfill(now_s)

    def _backfill(self, now_s: int) -> None:
        shadow_s, spare = self._reservation(now_s)
        for i in self.waiting[1:]:
            job = self.jobs[i]
            ends_in_time = now_s + job.requested_s <= shadow_s
            if job.procs <= self.free and (ends_in_time or job.procs <= spare):
                spare -= 0 if ends_in_time else job.procs
                self.waiting.remove(i)
                self._start(i, now_s)

    def _reservation(self, now_s: int) -> tuple[int, int]:
        """When the first in line can start by what running jobs asked for, and what it leaves free then."""
        wanted, free = self.jobs[self.waiting[0]].procs, self.free
        planned = sorted((max(now_s, self.starts_s[i] + self.jobs[i].requested_s), i) for _, i in self.running)
        for planned_end_s, i in planned:
            free += self.jobs[i].procs
            if free >= wanted:
                return planned_end_s, free - wanted
        raise ValueError(f"a job asks for {wanted} processors, more than the machine has")

    def _start(self, i: int, now_s: int) -> None:
        self.free -= self.jobs[i].procs
        self.starts_s[i] = now_s
        heapq.heappush(self.running, (now_s + self.jobs[i].runtime_s, i))
