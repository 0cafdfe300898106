"""Smith, Foster & Taylor's templates (1998, 2004): the job's estimate is its narrowest template's.

A template names attributes; jobs that share their values form a category. Unknown never matches: a job that lacks one
of a template's attributes falls into none of its categories, and a template relative to the request passes over jobs
without one. The interval is the 90% one for one more job's runtime, from Student's t.
"""

from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock
from typing import Annotated, Literal

import numpy as np
from pydantic import AfterValidator, Field, model_validator
from scipy.special import stdtrit

from pipeline.arrays import Floats, Ints
from pipeline.estimate.history import History
from pipeline.estimate.score import QUANTILES
from pipeline.estimate.submits import capped
from pipeline.estimate.templates.category_windows import (
    LAST,
    MEAN,
    MEDIAN,
    REGRESSION,
    Jobs,
    Rule,
    Windows,
    as_of,
    error_with,
    narrow_down,
)
from pipeline.settings import Section

Statistic = Literal["mean", "median", "last", "linear", "inverse", "log"]
STATISTICS: dict[Statistic, int] = {
    "mean": MEAN, "median": MEDIAN, "last": LAST, "linear": REGRESSION, "inverse": REGRESSION, "log": REGRESSION,
}  # fmt: skip

KEYS = (
    "user", "user_group", "account", "queue", "partition", "qos", "application", "problem_size", "requested_s",
    "requested_mem_kib", "hour", "weekday", "who", "what",
)  # fmt: skip

DAY_S = 86_400.0
MEDIAN_JOBS = 1000
SHARED_CATEGORIES = 64
T_TABLE = stdtrit(np.concatenate([[1], np.arange(1, 2001)])[:, None], np.array(QUANTILES)[None, :])
"""Student's t per degrees of freedom (row) and quantile; more degrees than the last row's change nothing."""


def _known_keys(names: tuple[str, ...]) -> tuple[str, ...]:
    unknown = [name for name in names if name not in KEYS]
    if unknown:
        raise ValueError(f"{', '.join(unknown)} (a template may name {', '.join(KEYS)})")
    return tuple(name for name in KEYS if name in names)


class Template(Section):
    """Which jobs form a category, how much of their history counts, and the statistic of it."""

    attributes: Annotated[tuple[str, ...], AfterValidator(_known_keys)] = Field(
        (), description="Attributes whose values jobs share, in any order."
    )
    procs_range: Literal["any", "log2", "linear"] = Field(
        "any", description="Whether jobs share a range of processor counts too, of equal width in log2 or in counts."
    )
    procs_width: float = Field(
        1.0, gt=0, le=1e9, description="The ranges' width (log2: doublings; linear: processors)."
    )
    max_count: int | None = Field(None, ge=2, le=2**31, description="Most recent jobs that count; none: all.")
    max_age_days: float | None = Field(None, gt=0, le=1e6, description="Age at which a job's end is forgotten, days.")
    is_relative: bool = Field(False, description="Whether runtime counts as a share of the time requested.")
    statistic: Statistic = Field("mean", description="mean, median, last; on processors: linear, inverse, log.")
    last_k: int = Field(2, ge=1, le=100, description="For last: jobs whose mean is the value.")

    @model_validator(mode="after")
    def _is_possible(self) -> "Template":
        if self.statistic == "median" and not (self.max_count and self.max_count <= MEDIAN_JOBS):
            raise ValueError(f"a median needs max_count of at most {MEDIAN_JOBS}")
        if self.statistic == "last" and self.max_count and self.max_count <= self.last_k:
            raise ValueError("max_count has to exceed last_k: the interval is how far the last k were off before")
        return self

    def __str__(self) -> str:
        """A short text, such as: last 2 of 50 (user, queue, procs log2 1), relative."""
        procs = () if self.procs_range == "any" else (f"procs {self.procs_range} {self.procs_width:g}",)
        bound = f" of {self.max_count}" if self.max_count else ""
        age = f" in {self.max_age_days:g} days" if self.max_age_days else ""
        last = f" {self.last_k}" if self.statistic == "last" else ""
        relative = ", relative" if self.is_relative else ""
        return f"{self.statistic}{last}{bound}{age} ({', '.join((*self.attributes, *procs)) or 'all'}){relative}"


Category = tuple[tuple[str, ...], str, float]


class Sight:
    """A History in codes, as input of templates; codes that several templates share are computed once."""

    def __init__(self, history: History) -> None:
        self.history = history
        self._keys: dict[str, Ints] = {}
        self._categories: dict[Category, Ints] = {}

    def key(self, name: str) -> Ints:
        """Codes of one attribute, -1 unknown."""
        if name not in self._keys:
            self._keys[name] = _key_codes(self.history, name)
        return self._keys[name]

    def categories(self, template: Template) -> Ints:
        """Per job, which category of the template it falls into, from 0; -1: none."""
        which = (template.attributes, template.procs_range, template.procs_width)
        found = self._categories.get(which)
        if found is None:
            found = _combined(self._columns(template), len(self.history))
            if len(self._categories) >= SHARED_CATEGORIES:
                self._categories.clear()
            self._categories[which] = found
        return found

    def _columns(self, template: Template) -> list[Ints]:
        columns = [self.key(name) for name in template.attributes]
        if template.procs_range == "any":
            return columns
        return [*columns, _procs_codes(self.history.procs, template.procs_range, template.procs_width)]


def _key_codes(history: History, name: str) -> Ints:
    if name in history.codes:
        return history.codes[name]
    if name == "hour":
        return history.local_s // 3600 % 24
    if name == "weekday":
        return history.local_s // int(DAY_S) % 7
    return _codes_of(getattr(history, name))


def _codes_of(values: Floats) -> Ints:
    codes = np.unique(values, return_inverse=True)[1].astype(np.int64)
    return np.where(np.isnan(values), -1, codes)


def _procs_codes(procs: Floats, procs_range: str, width: float) -> Ints:
    ranges = np.log2(procs) / width if procs_range == "log2" else (procs - 1) / width
    return _codes_of(np.floor(ranges))


def _combined(columns: list[Ints], n_jobs: int) -> Ints:
    """Codes from 0 of rows of codes; -1 where any is."""
    codes, is_known = np.zeros(n_jobs, np.int64), np.ones(n_jobs, np.bool_)
    for column in columns:
        is_known &= column >= 0
        top = int(column.max(initial=0)) + 1
        if int(codes.max(initial=0) + 1) * top > 2**62:
            codes = np.unique(codes, return_inverse=True)[1].astype(np.int64)
        codes = codes * top + np.maximum(column, 0)
    codes = np.where(is_known, codes, -1)
    values, places = np.unique(codes, return_inverse=True)
    return places.astype(np.int64) - int(len(values) > 0 and values[0] == -1)


def predict(sight: Sight, template: Template) -> tuple[Floats, Floats]:
    """Per job and as of its submit, (jobs, 6) quantiles and the width of the 90% interval, s; NaN: no answer."""
    n_jobs = len(sight.history)
    quantiles_s, width_s = np.full((n_jobs, len(QUANTILES)), np.nan), np.full(n_jobs, np.nan)
    jobs = _jobs(sight, template)
    age_s = (template.max_age_days or 0.0) * DAY_S
    rule = Rule(STATISTICS[template.statistic], template.max_count or 0, age_s, template.last_k)
    as_of(jobs, rule, _windows(jobs.category, template), T_TABLE, quantiles_s, width_s)
    return quantiles_s, width_s


def _jobs(sight: Sight, template: Template) -> Jobs:
    h = sight.history
    category, y, scale_s = sight.categories(template), h.runtime_s, np.ones(len(h))
    if template.is_relative:
        has_request = h.requested_s > 0
        scale_s = np.where(has_request, h.requested_s, 1.0)
        category, y = np.where(has_request, category, -1), h.runtime_s / scale_s
    x = {"inverse": 1 / h.procs, "log": np.log(h.procs)}.get(template.statistic, h.procs)
    return Jobs(category, x, y, scale_s, h.submit_s, h.end_s, h.is_lower_bound, h.by_end, h.ended)


def _windows(category: Ints, template: Template) -> Windows:
    sizes = np.bincount(category[category >= 0])
    is_kept = bool(template.max_count or template.max_age_days or template.statistic == "last")
    held = np.minimum(sizes, template.max_count or len(category)) if is_kept else np.zeros_like(sizes)
    start = np.concatenate([[0], np.cumsum(held)]).astype(np.int64)
    n_ordered = int(start[-1]) if template.statistic == "median" else 0
    n_off = len(category) if template.statistic == "last" else 0
    return Windows(
        np.zeros((len(sizes), 10)), start, np.zeros(len(sizes), np.int64), np.empty(start[-1], np.int64),
        np.empty(n_ordered), np.empty(n_off),
    )  # fmt: skip


def smith(history: History, templates: Sequence[Template]) -> Floats:
    """(jobs, 6) quantiles, s: per job those of the template with the narrowest interval, the first of equal ones.

    NaN where no template answers. The lower two are at most the request, at which a scheduler ends the job; the upper
    ones are not cut, because jobs are killed some seconds after it.

    Parameters
    ----------
    history : History
        n jobs in order of submit.
    templates : sequence of Template
        The templates, in order of preference for equal intervals.

    Returns
    -------
    Floats
        float64[n, 6], s: quantiles at 10, 50, 80, 90, 95 and 99%.

    References
    ----------
    Smith, Foster & Taylor (1998), Predicting application run times using historical information.

    Examples
    --------
    >>> from pipeline.estimate.history import history
    >>> log = history(tables["jobs"])
    >>> smith(log, SMITH_DEFAULT).shape == (len(log), 6)
    True
    """
    sight = Sight(history)
    best_width_s, chosen_s = np.full(len(history), np.inf), np.full((len(history), len(QUANTILES)), np.nan)
    for template in dict.fromkeys(templates):
        quantiles_s, width_s = predict(sight, template)
        is_narrower = width_s < best_width_s
        best_width_s[is_narrower], chosen_s[is_narrower] = width_s[is_narrower], quantiles_s[is_narrower]
    chosen_s[:, :2] = capped(chosen_s[:, :2], history.requested_s)
    return np.maximum.accumulate(chosen_s, axis=1)


SMITH_DEFAULT = (
    Template(attributes=("who", "what", "requested_s"), procs_range="linear", max_count=3),
    Template(attributes=("who", "requested_s"), procs_range="linear", max_count=3),
    Template(attributes=("who",), max_count=3, is_relative=True),
    Template(attributes=("queue",), max_count=1000, is_relative=True),
    Template(max_count=1000),
)
"""The papers' result: submitter, program, size and a short memory. Of memories of 3, 5 and 10 jobs and six such sets
this was the best on the first thirds of KTH, CTC, SDSC-SP2 and SDSC-BLUE; the errors differ by at most 13%."""


def smith_default(history: History, _settings: object = None) -> Floats:
    """(jobs, 6) quantiles, s, by SMITH_DEFAULT."""
    return smith(history, SMITH_DEFAULT)


CACHE_BYTES = 256 * 2**20

Values = tuple[Floats, Floats]


def training(history: History, until_s: float) -> History:
    """The jobs submitted before `until_s`; the runtime of one that had not ended by then is NaN, its end infinite."""
    known = history.known_by(until_s)
    return known.take(np.arange(np.searchsorted(known.submit_s, until_s, side="left")))


class Errors:
    """Mean absolute errors of sets of templates over the training period's ended jobs; safe for several threads.

    The estimate of a job without an answering template is its request, or 0 s without a request.
    """

    def __init__(self, history: History, until_s: float) -> None:
        trained = training(history, until_s)
        if (trained.submit_s >= until_s).any() or not np.isnan(trained.runtime_s[trained.end_s > until_s]).all():
            raise AssertionError("a job or a runtime from after the training period")
        self.sight = Sight(trained)
        self._scored = np.flatnonzero(~np.isnan(trained.runtime_s))
        self._runtime_s = trained.runtime_s[self._scored]
        requested_s = trained.requested_s[self._scored]
        self._request_s = np.where(requested_s > 0, requested_s, 0.0)
        self._held: OrderedDict[Template, Values] = OrderedDict()
        self._lock = Lock()
        for name in KEYS:  # before threads share them
            self.sight.key(name)

    def __len__(self) -> int:
        """How many jobs are scored."""
        return len(self._scored)

    def mean_s(self, templates: Sequence[Template]) -> float:
        """The set's mean absolute error, s."""
        *others, last = templates
        return self.with_one_more_s(self.narrowest(others), last)

    def narrowest(self, templates: Sequence[Template]) -> Values:
        """Per scored job the narrowest template's value and its width, s; infinite where none answers."""
        best_value_s, best_width_s = np.zeros(len(self)), np.full(len(self), np.inf)
        for template in templates:
            narrow_down(*self._values(template), best_value_s, best_width_s)
        return best_value_s, best_width_s

    def with_one_more_s(self, best: Values, template: Template) -> float:
        """The mean absolute error once this template is added to those that gave `best`, s."""
        total_s: float = error_with(*self._values(template), *best, self._runtime_s, self._request_s)
        return total_s / max(len(self), 1)

    def _values(self, template: Template) -> Values:
        with self._lock:
            if template in self._held:
                self._held.move_to_end(template)
                return self._held[template]
        quantiles_s, width_s = predict(self.sight, template)
        made = capped(quantiles_s[self._scored, 1], self._request_s), width_s[self._scored]
        with self._lock:
            self._held[template] = made
            while len(self._held) * 16 * max(len(self), 1) > CACHE_BYTES and len(self._held) > 1:
                self._held.popitem(last=False)
        return made
