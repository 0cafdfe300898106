"""One job's question to published tables: along the chain of templates, or a fit for a size that has not run yet."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from pipeline.core.buffers import integers
from pipeline.core.matching import Value, first_place

QUANTILES_PCT = (10, 50, 80, 90, 95, 99)


@dataclass(frozen=True, slots=True)
class Question:
    """What is known of a job at its submit, by template column; a column not named, or None, is unknown."""

    values: Mapping[str, Value]
    site: str | None = None


@dataclass(frozen=True, slots=True)
class Fitted:
    """The scalability fit of the job's group at its size, s; `method` and `reliability` as in PREDICTIONS."""

    template: str
    runtime_s: float
    lo80_s: float | None
    hi80_s: float | None
    lo95_s: float | None
    hi95_s: float | None
    reliability: str
    method: str
    n_jobs: int
    n_sizes: int
    newest_end_s: int | None

    @property
    def is_reliable(self) -> bool:
        """Whether nothing was found to doubt it for."""
        return self.reliability == "ok"


@dataclass(frozen=True, slots=True)
class Answer:
    """Runtime quantiles (s, by per cent; None: not told) and why: who answers, from how many jobs, how old."""

    source: str
    template: str
    chain_rank: int | None
    quantiles_s: dict[int, float | None]
    n_jobs: int
    n_censored: int | None
    newest_end_s: int | None
    age_s: int | None
    fit: Fitted | None = None
    passed: tuple[str, ...] = field(default_factory=tuple)
    """Templates without a row for these values, most specific first."""


def look_up(
    estimates: pa.Table, question: Question, as_of_s: int | None, fitted: Callable[[], Fitted | None]
) -> Answer | None:
    """The answer of the most specific template with a row for the job's very values; None: the table has no job at all.

    Nothing is interpolated. Where that template does not tell the processors, the job's own size has not run (enough):
    then the group's fit at that size answers, if it is reliable. `fitted` is asked only then. Ages count to `as_of_s`.
    """
    passed: list[str] = []
    for place, n_rows in _templates(estimates):
        rows = estimates.slice(place, n_rows)
        template = rows.column("template")[0].as_py()
        names = [] if template == "all" else template.split("+")
        values = wanted(names, question)
        at = -1 if values is None else first_place(rows, values)
        if at < 0:
            passed.append(template)
            continue
        row = rows.slice(at, 1).to_pylist()[0]
        knows_size = "procs" in names or question.values.get("procs") is None
        fit = None if knows_size else fitted()
        if fit is not None and fit.is_reliable:
            return _of_fit(fit, as_of_s, (*passed, template))
        return _of_row(row, as_of_s, fit, tuple(passed))
    return None


def wanted(names: Sequence[str], question: Question) -> dict[str, Value] | None:
    """What a row of this template must hold to be the question's; None where the question knows none of it."""
    values = {name: question.values.get(name) for name in names}
    if names and all(value is None for value in values.values()):
        return None
    return values | ({} if question.site is None else {"site": question.site})


def _templates(estimates: pa.Table) -> list[tuple[int, int]]:
    """Where each template's rows start, and how many there are; most specific first, as the table is sorted."""
    ranks = integers(estimates.column("chain_rank"))[0]
    starts = np.flatnonzero(np.diff(ranks, prepend=-1)) if len(ranks) else np.empty(0, np.int64)
    ends = [*starts[1:].tolist(), len(ranks)]
    return [(int(start), end - int(start)) for start, end in zip(starts, ends, strict=False)]


def _of_row(row: Mapping[str, Any], as_of_s: int | None, fit: Fitted | None, passed: tuple[str, ...]) -> Answer:
    return Answer(
        source="estimates",
        template=row["template"],
        chain_rank=row["chain_rank"],
        quantiles_s={q: row[f"runtime_s_q{q}"] for q in QUANTILES_PCT},
        n_jobs=row["n_jobs"],
        n_censored=row["n_censored"],
        newest_end_s=row["newest_end_s"],
        age_s=_age_s(row["newest_end_s"], as_of_s),
        fit=fit,
        passed=passed,
    )


def _of_fit(fit: Fitted, as_of_s: int | None, passed: tuple[str, ...]) -> Answer:
    """The ends of the 80% interval are its 10% and 90% quantiles; those of the 95% one are no quantile asked for."""
    told: dict[int, float | None] = {10: fit.lo80_s, 50: fit.runtime_s, 90: fit.hi80_s}
    return Answer(
        source="predictions",
        template=f"{fit.template}, fitted on processors",
        chain_rank=None,
        quantiles_s={q: told.get(q) for q in QUANTILES_PCT},
        n_jobs=fit.n_jobs,
        n_censored=None,
        newest_end_s=fit.newest_end_s,
        age_s=_age_s(fit.newest_end_s, as_of_s),
        fit=fit,
        passed=passed,
    )


def _age_s(newest_end_s: int | None, as_of_s: int | None) -> int | None:
    return None if newest_end_s is None or as_of_s is None else as_of_s - newest_end_s
