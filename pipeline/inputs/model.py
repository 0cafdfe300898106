"""What `learn` gives, what `predict` and `suggest` read, and what `save` writes."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pipeline.core.arrays import Array
from pipeline.core.column import count, number, seconds, text
from pipeline.core.input_settings import InputSettings
from pipeline.core.report import Report
from pipeline.core.table_kind import TableKind
from pipeline.inputs.declaration import Declaration


class AnswerStatus(StrEnum):
    """What a prediction rests on. The refused ones have no numbers."""

    OK = "ok"
    OUTSIDE = "outside"
    NEW_CATEGORY = "new_category"
    REFUSED_OUTSIDE = "refused_outside"
    REFUSED_CATEGORY = "refused_category"
    MISSING_INPUT = "missing_input"


ANSWERS = TableKind(
    "INPUT_ANSWERS",
    (
        count("point", "row of the points, from 0", "row", required=True),
        seconds("median_s", "predicted median runtime"),
        seconds("low80_s", "lower end of the 80% interval"),
        seconds("high80_s", "upper end of the 80% interval"),
        seconds("low95_s", "lower end of the 95% interval"),
        seconds("high95_s", "upper end of the 95% interval"),
        number("error_pct", "expected absolute error of the median, per cent of the runtime", "%"),
        text("status", "value of AnswerStatus", required=True),
        text("reason", "one clause: which input has what value; null where status is ok"),
    ),
    ("point",),
    "Predictions of a model over inputs, in the order of the points; figures rounded to 6 digits.",
)

SUGGESTIONS = TableKind(
    "INPUT_SUGGESTIONS",
    (
        count("order", "place of the run, from 1", "run", required=True),
        count("candidate", "row of the candidates, from 0", "row", required=True),
        seconds("median_s", "predicted median runtime"),
        number("cost", "expected cost of the run", "the unit asked for"),
        number("total_cost", "cost of this run and those before it", "the unit asked for"),
        number("error_before_pct", "mean error that `ask` announces over the candidates before the run", "%"),
        number("error_after_pct", "the same after the run, as the model expects it", "%"),
    ),
    ("order",),
    "The runs to make next, best first; figures rounded to 6 digits.",
)


class CostUnit(StrEnum):
    """What a run costs."""

    RUNS = "runs"
    SECONDS = "seconds"
    PROC_SECONDS = "proc-seconds"


@dataclass(frozen=True, slots=True)
class Cost:
    """What runs cost, how much may be spent, and how many runs at most; null: no limit."""

    unit: CostUnit = CostUnit.PROC_SECONDS
    budget: float | None = None
    n_runs: int | None = None


class SuggestRule(StrEnum):
    """How the next runs are chosen."""

    ALC = "alc"
    """The fall of the candidates' mean variance over the root of the cost; needs method gp."""
    MEMBERS = "members"
    """The largest coefficient of variation among members, at a distance from those taken (Singh et al. 2007)."""
    RANDOM = "random"


@dataclass(frozen=True, slots=True)
class ErrorEstimate:
    """Errors on runs that the predicting member had not seen. Per cent of the runtime; shares from 0 to 1."""

    mean_pct: float
    sd_pct: float
    median_pct: float
    fold_sd_pct: float
    """Standard deviation of the folds' mean errors."""
    share_in_80: float
    share_in_95: float
    folds_by: str
    """batch, time or random."""
    n_folds: int
    n_runs: int


@dataclass(frozen=True, slots=True)
class InputModel:
    """A learnt model. `arrays` and `facts` belong to the method and to the checks of points; nothing is a closure."""

    declaration: Declaration
    settings: InputSettings
    method: str
    error: ErrorEstimate
    report: Report
    arrays: Mapping[str, Array]
    facts: Mapping[str, Any]
