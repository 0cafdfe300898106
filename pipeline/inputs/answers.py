"""predict: a model and points to runtimes with intervals, or to the reason why there is none; and their quantiles."""

from dataclasses import dataclass
from typing import TypeGuard

import numpy as np
import pyarrow as pa

from pipeline.arrays import Array, Bools, Floats
from pipeline.errors import printable
from pipeline.inputs.declaration import InputType
from pipeline.inputs.encoding import Encoding, Feature, raw_inputs
from pipeline.inputs.input_model import ANSWERS, AnswerStatus, InputModel
from pipeline.inputs.methods import METHODS
from pipeline.inputs.training import on_one_thread
from pipeline.inputs.validation import LEVELS, Test, leverage
from pipeline.report import read_dataclass

Z80, Z90, Z95, Z975, Z99 = 0.8416212, 1.2815516, 1.6448536, 1.9599640, 2.3263479
"""Quantiles of the normal distribution, by which log runtimes are interpolated between the ends of intervals."""
DIGITS = 6
REFUSED = (AnswerStatus.REFUSED_OUTSIDE, AnswerStatus.REFUSED_CATEGORY, AnswerStatus.MISSING_INPUT)
ROUNDING = 1e-9
"""A point this far outside, in standard deviations of the input, is inside: logarithms are rounded."""


@dataclass(slots=True)
class Places:
    """Where points lie, against the runs: statuses, reasons, and what tests on the runs say of such places.

    `least` are the least scores of the intervals ("80", "95") and the least error to announce ("error_pct").
    """

    status: list[AnswerStatus]
    reason: list[str | None]
    least: dict[str, Floats]

    def say(self, where: Bools, status: AnswerStatus, reason: list[str]) -> None:
        """Enter a status at some points; a refusal is never replaced, the first reason stays."""
        for i in np.flatnonzero(where):
            if self.status[i] == AnswerStatus.OK or (status in REFUSED and self.status[i] not in REFUSED):
                self.status[i], self.reason[i] = status, reason[i]

    def widen(self, where: Bools, test: Test) -> None:
        """Take the scores and the error of a test at some points."""
        for name, values in self.least.items():
            values[where] = np.maximum(values[where], test[name])


@on_one_thread
def predict(model: InputModel, points: pa.Table) -> pa.Table:
    """ANSWERS, one row a point in the order of `points`; refused points have nulls, a status and a reason.

    Parameters
    ----------
    model : InputModel
        What `learn` or `load` gave.
    points : pa.Table
        The inputs' columns.

    Returns
    -------
    pa.Table
        A table of the kind ANSWERS; runtimes in s, rounded to 6 digits.

    Raises
    ------
    InputError
        If a column of an input is missing or has another type.

    Examples
    --------
    >>> from pipeline.inputs import Declaration, Input, LearnRules, learn
    >>> runs = pa.table({"n": list(range(1, 31)), "time_s": [0.5 * n * n for n in range(1, 31)]})
    >>> model = learn(runs, Declaration(inputs=(Input(name="n", type="log_number"),)), LearnRules())
    >>> predict(model, pa.table({"n": [10.0, None]})).column("status").to_pylist()
    ['ok', 'missing_input']
    """
    encoding = read_dataclass(Encoding, model.facts["encoding"])
    raw = raw_inputs(points, model.declaration)
    x = encoding.encode(raw)
    complete = encoding.is_answerable(raw)
    x = np.where(complete[:, None], x, 0.0)
    places = _places(model, encoding, raw, x, complete)
    mean, sd = METHODS[model.method].predict(model.arrays, model.facts["method"], x)
    return _answers(model, places, mean, sd)


def _places(model: InputModel, encoding: Encoding, raw: dict[str, Array], x: Floats, complete: Bools) -> Places:
    n, found = len(x), model.facts["quantiles"]
    least = {"80": np.full(n, found["80"]), "95": np.full(n, found["95"]), "error_pct": np.zeros(n)}
    places = Places([AnswerStatus.OK] * n, [None] * n, least)
    places.say(~complete, AnswerStatus.MISSING_INPUT, ["an input is unknown, undefined or negative"] * n)
    for name, value in encoding.constant.items():
        all_have = "no run has a value" if value is None else f"all runs have {value:g}"
        reason = [f"{printable(name)} = {one}, and {all_have}" for one in raw[name]]
        is_other = ~np.isnan(raw[name]) if value is None else (raw[name] != value) & ~np.isnan(raw[name])
        places.say(complete & is_other, AnswerStatus.REFUSED_OUTSIDE, reason)
    for name, levels in encoding.levels.items():
        _check_levels(places, model, raw[name], name, levels)
    for j, one in enumerate(encoding.features):
        if one.type in (InputType.NUMBER, InputType.LOG_NUMBER):
            _check_range(places, model, raw[one.name], one, x[:, j])
    ratio = leverage(x, model.arrays["scatter"]) / max(model.facts["largest_leverage"], np.finfo(float).tiny)
    reason = ["no run has a combination of inputs this far from the mean"] * n
    _judge(places, model, ratio > 1.0 + ROUNDING, ratio, model.facts["left_out"]["combinations"], reason)
    return places


def _check_levels(places: Places, model: InputModel, values: Array, name: str, levels: tuple[str, ...]) -> None:
    new = np.array([value is not None and value not in levels for value in values], bool)
    test = model.facts["left_out"]["categories"].get(name)
    reason = [f"{printable(name)} = {printable(str(one), 40)} is in no run" for one in values]
    if _is_small(test, model):
        places.say(new, AnswerStatus.NEW_CATEGORY, reason)
        places.widen(new, test)
    else:
        places.say(new, AnswerStatus.REFUSED_CATEGORY, reason)


def _check_range(places: Places, model: InputModel, values: Array, one: Feature, x: Floats) -> None:
    tests = model.facts["left_out"]["ranges"].get(one.name, {})
    for side, beyond, where in (
        ("low", one.low - x, "below all runs, which begin"), ("high", x - one.high, "above all runs, which end"),
    ):  # fmt: skip
        reason = [f"{printable(one.name)} = {value:g} is {where} at {one.bound(side):.6g}" for value in values]
        _judge(places, model, beyond > ROUNDING, beyond, tests.get(side), reason)


def _is_small(test: Test | None, model: InputModel) -> TypeGuard[Test]:
    """Whether there is a test, and its error is one that the rules allow."""
    return test is not None and test["error_pct"] <= 100.0 * model.rules.largest_error


def _judge(
    places: Places, model: InputModel, outside: Bools, distance: Floats, test: Test | None, reason: list[str]
) -> None:
    """Enter points outside as answered or refused, by the rules and by the test of such places, and say why."""
    answered = outside & (model.rules.outside == "predict")
    if model.rules.outside == "evidence" and _is_small(test, model):
        answered = outside & (distance <= test["distance"])
    why_not = _why_not(model, test)
    places.say(outside & ~answered, AnswerStatus.REFUSED_OUTSIDE, [f"{one}; {why_not}" for one in reason])
    places.say(answered, AnswerStatus.OUTSIDE, reason)
    if test is not None:
        places.widen(answered, test)


def _why_not(model: InputModel, test: Test | None) -> str:
    """Why a point outside is refused, in words."""
    allowed = 100.0 * model.rules.largest_error
    if model.rules.outside == "refuse":
        return "the rules refuse all points outside"
    if test is None:
        return "the runs do not suffice to test predictions there"
    if test["error_pct"] > allowed:
        return f"tests on the runs announce an error of {test['error_pct']:.0f}% there, and {allowed:.0f}% are allowed"
    return "it lies farther outside than predictions could be tested on the runs"


def _answers(model: InputModel, places: Places, mean: Floats, sd: Floats) -> pa.Table:
    refused = np.array([status in REFUSED for status in places.status], bool)
    with np.errstate(over="ignore"):
        columns = {"median_s": np.exp(mean)}
        for level in LEVELS:
            columns[f"low{level}_s"] = np.exp(mean - places.least[level] * sd)
            columns[f"high{level}_s"] = np.exp(mean + places.least[level] * sd)
        announced = 100.0 * np.expm1(model.facts["mean_score"] * sd)
        columns["error_pct"] = np.maximum(announced, places.least["error_pct"])
    shown = {
        name: rounded(np.where(refused | ~np.isfinite(values), np.nan, values)) for name, values in columns.items()
    }
    return ANSWERS.build(
        point=np.arange(len(mean)), status=[str(one) for one in places.status], reason=places.reason, **shown
    )


def rounded(values: Floats) -> Floats:
    """The values with 6 significant digits; NaN stays."""
    return np.array([float(f"{value:.{DIGITS - 1}e}") for value in values], np.float64)


def quantiles_of(answers: pa.Table, requested_s: Floats) -> Floats:
    """(points, 6) runtimes at 10, 50, 80, 90, 95 and 99%, s; NaN where there is no answer.

    10, 50 and 90% are the model's own; the others lie between its 80% and 95% intervals as those of a normal
    distribution would. The median is at most the request.
    """
    middle, low, high = (np.log(answers.column(name).to_numpy()) for name in ("median_s", "low80_s", "high80_s"))
    wide = np.maximum(np.log(answers.column("high95_s").to_numpy()), high)
    near, far = high - middle, wide - middle
    beyond = near + (far - near) * (Z95 - Z90) / (Z975 - Z90)
    found: Floats = np.exp(np.column_stack([
        low, middle, middle + near * Z80 / Z90, high, middle + beyond, middle + np.maximum(far * Z99 / Z975, beyond),
    ]))  # fmt: skip
    found[:, 1] = np.where(requested_s > 0, np.fmin(found[:, 1], requested_s), found[:, 1])
    found[:, 0] = np.fmin(found[:, 0], found[:, 1])
    # Rounding may leave a quantile a digit below the one before it.
    ascending = np.maximum.accumulate(found, axis=1)
    # With few runs the 95% interval has no upper end: the request is one, and without a request there is no answer.
    asked_s = np.where(requested_s > 0, requested_s, np.nan)
    ends = np.maximum(asked_s, ascending[:, 3])[:, None]
    ascending[:, 4:] = np.where(np.isnan(ascending[:, 4:]), ends, ascending[:, 4:])
    return np.where(np.isnan(ascending).any(axis=1, keepdims=True), np.nan, ascending)
