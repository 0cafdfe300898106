"""The jobs of a log as numpy arrays, each computed once, when a screen first needs it."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from pipeline.arrays import (
    EARLIEST_S,
    LATEST_S,
    Bools,
    Floats,
    Ints,
    category_codes,
    floats,
    job_procs,
    offset_s,
    row_codes,
    work_s,
)
from pipeline.settings import CleanSettings, SiteSettings

T = TypeVar("T")


@dataclass(frozen=True)
class JobArrays:
    """JOBS and the site. Every array has one value per job, NaN (or -1 in codes) where the log has no value."""

    jobs: pa.Table
    site: SiteSettings
    begins_log: bool = True
    ends_log: bool = True
    """Whether the jobs are the first ones of their log, and the last ones."""
    rest_per_week: dict[str, float] | None = None
    """By user, the jobs that all others submit in a median week of the whole log; None: known from these jobs alone."""
    settings: CleanSettings = field(default_factory=CleanSettings)
    """What the site states: flags that are off, limits, and its own rules."""
    span_s: tuple[float, float] = (EARLIEST_S, LATEST_S)
    """The times that are plausible in the whole log, the end excluded; an instant outside counts as unknown."""
    _computed: dict[Hashable, Any] = field(default_factory=dict, init=False)

    @cached_property
    def submit_s(self) -> Floats:
        """Submit time, s since 1970."""
        return self._plausible(floats(self.jobs, "submit_s"))

    @cached_property
    def start_s(self) -> Floats:
        """Start, s since 1970."""
        return self._plausible(floats(self.jobs, "start_s"))

    @cached_property
    def end_s(self) -> Floats:
        """End, s since 1970."""
        return self._plausible(floats(self.jobs, "end_s"))

    @cached_property
    def has_far_time(self) -> Bools:
        """Where the log has a submit, a start or an end that is not plausible, or a runtime that ends then."""
        submit_s, start_s, end_s = (floats(self.jobs, name) for name in ("submit_s", "start_s", "end_s"))
        began_s = np.where(np.isnan(start_s), submit_s, start_s)
        over_s = np.where(np.isnan(end_s), began_s + np.maximum(self.runtime_s, 0), end_s)
        times = (submit_s, start_s, over_s)
        far: Bools = np.logical_or.reduce([~np.isnan(one) & np.isnan(self._plausible(one)) for one in times])
        return far

    def _plausible(self, instants: Floats) -> Floats:
        return np.where((instants >= self.span_s[0]) & (instants < self.span_s[1]), instants, np.nan)

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

    def codes(self, column: str) -> tuple[Ints, list[str]]:
        """Codes into the sorted names of a column, and the names."""
        return self.once(column, lambda: category_codes(self.jobs, column))

    def similar_codes(self, rows: Ints) -> Ints:
        """One code per (user, processors, application) of rows; an unknown size or application is one of its own."""
        users, applications = (self.codes(name)[0][rows] for name in ("user", "application"))
        return row_codes(users, np.nan_to_num(self.procs[rows]), applications)

    @cached_property
    def is_typical(self) -> Bools:
        """Jobs that ran to their end or limit, or whose final state is unknown."""
        return self.state_is("COMPLETED", "TIMEOUT", "DEADLINE") | (self.codes("state")[0] < 0)

    @cached_property
    def by_submit(self) -> Ints:
        """Rows whose submit time and user are known, in order of submit time."""
        rows = np.flatnonzero(~np.isnan(self.submit_s) & (self.codes("user")[0] >= 0))
        return rows[np.argsort(self.submit_s[rows].astype(np.int64), kind="stable")]

    @cached_property
    def by_user(self) -> Ints:
        """The same rows in order of user, then submit time."""
        return self.by_submit[np.argsort(self.codes("user")[0][self.by_submit], kind="stable")]

    def once(self, key: Hashable, compute: Callable[[], T]) -> T:
        """The result of `compute` for this key, computed at the first call and kept for later calls."""
        if key not in self._computed:
            self._computed[key] = compute()
        found: T = self._computed[key]
        return found

    @cached_property
    def user_starts(self) -> Ints:
        """Where each user's rows start in `by_user`, by code; one more entry for the end."""
        return np.searchsorted(self.codes("user")[0][self.by_user], np.arange(len(self.codes("user")[1]) + 1))

    @cached_property
    def local_s(self) -> Ints:
        """Submit time in local time of the site, s since 1970 of its clock; 0 where unknown."""
        rows, local_s = self.by_submit, np.zeros(self.jobs.num_rows, np.int64)
        whole = self.submit_s[rows].astype(np.int64)
        local_s[rows] = whole + offset_s(whole, self.site.timezone)
        return local_s

    def state_is(self, *states: str) -> Bools:
        """Where the state is one of these."""
        codes, words = self.codes("state")
        # The last element is for code -1.
        return np.array([*(word in states for word in words), False])[codes]
