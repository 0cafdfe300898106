"""One log as the arrays its screens read, each made once and only if a screen asks for it."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from pipeline.clean.similar_jobs import SimilarJobs, find_similar_jobs
from pipeline.core.arrays import Bools, Floats, Ints, category_codes, floats, job_procs, work_s
from pipeline.core.local_time import EARLIEST_S, LATEST_S, offset_s
from pipeline.core.settings import SiteSettings

T = TypeVar("T")

DAY_S = 86_400
WEEK_S = 7 * DAY_S


@dataclass(frozen=True)
class JobArrays:
    """JOBS and the site; every array has one value a job, NaN (or -1 in codes) where the log does not say."""

    jobs: pa.Table
    site: SiteSettings

    @cached_property
    def submit_s(self) -> Floats:
        """Submit time, s since 1970."""
        return _instants(self.jobs, "submit_s")

    @cached_property
    def start_s(self) -> Floats:
        """Start, s since 1970."""
        return _instants(self.jobs, "start_s")

    @cached_property
    def end_s(self) -> Floats:
        """End, s since 1970."""
        return _instants(self.jobs, "end_s")

    @property
    def began_s(self) -> Floats:
        """Start, or submit where no start is known; made anew, for few ask."""
        return np.where(np.isnan(self.start_s), self.submit_s, self.start_s)

    @cached_property
    def runtime_s(self) -> Floats:
        """Runtime, s."""
        return floats(self.jobs, "runtime_s")

    @cached_property
    def suspended_s(self) -> Floats:
        """Time suspended, s."""
        return floats(self.jobs, "suspended_s")

    @cached_property
    def requested_s(self) -> Floats:
        """Requested runtime, s."""
        return floats(self.jobs, "requested_s")

    @cached_property
    def procs(self) -> Floats:
        """Processors a job counts as."""
        return job_procs(self.jobs)

    @cached_property
    def proc_s(self) -> Floats:
        """Processor-seconds, 0 where unknown."""
        return work_s(self.procs, self.runtime_s)

    @cached_property
    def users(self) -> tuple[Ints, list[str]]:
        """Codes into the sorted user names, and the names."""
        return category_codes(self.jobs, "user")

    @cached_property
    def applications(self) -> tuple[Ints, list[str]]:
        """Codes into the sorted application names, and the names."""
        return category_codes(self.jobs, "application")

    @cached_property
    def queues(self) -> tuple[Ints, list[str]]:
        """Codes into the sorted queue names, and the names."""
        return _few(*category_codes(self.jobs, "queue"))

    @cached_property
    def states(self) -> tuple[Ints, list[str]]:
        """Codes into the sorted words for how jobs ended, and the words."""
        return _few(*category_codes(self.jobs, "state"))

    @cached_property
    def is_typical(self) -> Bools:
        """Jobs that ran to their end or limit, or whose end the log does not tell."""
        return self.state_is("COMPLETED", "TIMEOUT", "DEADLINE") | (self.states[0] < 0)

    @cached_property
    def similar(self) -> SimilarJobs:
        """Jobs of one user, size and application, and how their runtimes lie."""
        codes = self.applications[0]
        return find_similar_jobs(self.by_user, self.user_starts, self.runtime_s, self.procs, codes, self.is_typical)

    @cached_property
    def by_submit(self) -> Ints:
        """Rows whose submit time and user are known, in order of submit time."""
        rows = np.flatnonzero(~np.isnan(self.submit_s) & (self.users[0] >= 0))
        return rows[np.argsort(self.submit_s[rows].astype(np.int64), kind="stable")]

    @cached_property
    def by_user(self) -> Ints:
        """The same rows in order of user, then submit time."""
        return self.by_submit[np.argsort(narrow(self.users[0][self.by_submit]), kind="stable")]

    def once(self, question: Hashable, answer: Callable[[], T]) -> T:
        """What a screen asks of the whole log, answered at the first time and kept for the others that ask."""
        if question not in self._answered:
            self._answered[question] = answer()
        found: T = self._answered[question]
        return found

    @cached_property
    def _answered(self) -> dict[Hashable, Any]:
        return {}

    @cached_property
    def user_starts(self) -> Ints:
        """Where each user's rows start in `by_user`, by code; one more entry for the end."""
        return np.searchsorted(self.users[0][self.by_user], np.arange(len(self.users[1]) + 1))

    @cached_property
    def local_s(self) -> Ints:
        """Submit time as the site's clock showed it, in s since 1970 of that clock; 0 where unknown."""
        rows, local_s = self.by_submit, np.zeros(self.jobs.num_rows, np.int64)
        whole = self.submit_s[rows].astype(np.int64)
        local_s[rows] = whole + offset_s(whole, self.site.timezone)
        return local_s

    def forget(self, *names: str) -> None:
        """Give the memory of these arrays back; whoever asks again pays again."""
        for name in names:
            self.__dict__.pop(name, None)

    def state_is(self, *states: str) -> Bools:
        """Where the state is one of these."""
        codes, words = self.states
        # The last place answers for code -1.
        found: Bools = np.array([*(word in states for word in words), False])[codes]
        return found


def narrow(codes: Ints) -> Ints:
    """Codes in 16 bits if they fit: numpy sorts those in linear time."""
    return codes.astype(np.int16) if codes.max(initial=0) < 2**15 else codes


def _few(codes: Ints, names: list[str]) -> tuple[Ints, list[str]]:
    """Codes of few names need little room."""
    return narrow(codes), names


def _instants(jobs: pa.Table, name: str) -> Floats:
    """An instant no cluster can have written is not known."""
    instants = floats(jobs, name)
    return np.where((instants >= EARLIEST_S) & (instants < LATEST_S), instants, np.nan)
