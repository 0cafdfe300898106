"""What a model answers: runtimes at points with intervals, or the reason why there is none, and the next runs to make.

ALC: D. A. Cohn, Z. Ghahramani and M. I. Jordan, "Active learning with statistical models", JAIR 4, 1996.
"""

from dataclasses import dataclass
from enum import StrEnum
from math import prod
from typing import TypeGuard

import numpy as np
import pyarrow as pa

from pipeline.arrays import Bools, Floats, Ints
from pipeline.errors import InputError, printable
from pipeline.inputs import gaussian_process as process
from pipeline.inputs.declaration import InputType, LearnRules
from pipeline.inputs.encoding import Encoding, is_unknown, is_usable, numbers_of, raw_inputs
from pipeline.inputs.gaussian_process import one_thread
from pipeline.inputs.learning import InputModel
from pipeline.inputs.trees import correction
from pipeline.inputs.validation import LEVELS, Test, leverage
from pipeline.report import read_dataclass
from pipeline.schema import TableKind
from pipeline.tables import columns


class AnswerStatus(StrEnum):
    """What a prediction rests on. The refused ones have no numbers."""

    OK = "ok"
    OUTSIDE = "outside"
    NEW_CATEGORY = "new_category"
    REFUSED_OUTSIDE = "refused_outside"
    REFUSED_CATEGORY = "refused_category"
    MISSING_INPUT = "missing_input"


REFUSED = (AnswerStatus.REFUSED_OUTSIDE, AnswerStatus.REFUSED_CATEGORY, AnswerStatus.MISSING_INPUT)
ANSWERS = TableKind(
    "INPUT_ANSWERS",
    columns(
        "point",
        "median_s",
        "low80_s",
        "high80_s",
        "low95_s",
        "high95_s",
        "error_pct",
        "input_answers/status",
        "input_answers/reason",
    ),
    ("point",),
    "Predictions of a model over inputs, in the order of the points; figures rounded to 6 digits.",
)
SUGGESTIONS = TableKind(
    "INPUT_SUGGESTIONS",
    columns("order", "candidate", "median_s", "cost", "total_cost", "error_before_pct", "error_after_pct"),
    ("order",),
    "The runs to make next, best first; figures rounded to 6 digits.",
)
DIGITS = 6
ROUNDING = 1e-9
"""A point this far outside, in standard deviations of the input, is inside: logarithms are rounded."""


@one_thread()
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
    # The points as the runs were encoded. Those that lack an input which all runs have are refused, as unusable ones.
    encoding = read_dataclass(Encoding, model.facts["encoding"])
    raw, n = raw_inputs(points, model.declaration), points.num_rows
    lacks = [is_unknown(values) for name, values in raw.items() if name not in encoding.gaps]
    complete = is_usable(raw, encoding.types) & ~np.logical_or.reduce([*lacks, np.zeros(n, bool)])
    x = np.where(complete[:, None], encoding.encode(raw), 0.0)
    # Where they lie, against the runs.
    places, tests = Places(model, n), model.facts["left_out"]
    unknown = ["an input is unknown, undefined or negative"] * n
    places.settle(~complete, AnswerStatus.MISSING_INPUT, unknown)
    for name, value in encoding.constant.items():
        is_other = ~np.isnan(raw[name]) & (value is None or raw[name] != value)
        all_have = "no run has a value" if value is None else f"all runs have {value:g}"
        reason = [f"{printable(name)} = {one}, and {all_have}" for one in raw[name]]
        places.settle(complete & is_other, AnswerStatus.REFUSED_OUTSIDE, reason)
    for name, levels in encoding.levels.items():
        known = {None, *levels}
        new = np.array([value not in known for value in raw[name]], bool)
        reason = [f"{printable(name)} = {printable(str(one), 40)} is in no run" for one in raw[name]]
        test = tests["categories"].get(name)
        is_answered = is_small(test, model.rules)
        places.settle(new, AnswerStatus.NEW_CATEGORY if is_answered else AnswerStatus.REFUSED_CATEGORY, reason, test)
    for j, one in enumerate(encoding.features):
        if one.type in (InputType.NUMBER, InputType.LOG_NUMBER):
            for side, beyond, where in (
                ("low", one.low - x[:, j], "below all runs, which begin"),
                ("high", x[:, j] - one.high, "above all runs, which end"),
            ):
                end = f"is {where} at {one.bound(side):.6g}"
                reason = [f"{printable(one.name)} = {value:g} {end}" for value in raw[one.name]]
                places.judge(beyond > ROUNDING, beyond, tests["ranges"].get(one.name, {}).get(side), reason)
    ratio = leverage(x, model.arrays["scatter"]) / max(model.facts["largest_leverage"], np.finfo(float).tiny)
    reason = ["no run has a combination of inputs this far from the mean"] * n
    places.judge(ratio > 1.0 + ROUNDING, ratio, tests["combinations"], reason)
    # The mean of the processes and what the trees add; intervals are the scores that held runs had.
    mean, sd = process.predict(model.arrays, x)
    mean = mean + correction(model.arrays, x)
    refused = np.array([status in REFUSED for status in places.status], bool)
    with np.errstate(over="ignore"):
        columns = {"median_s": np.exp(mean)}
        for level in LEVELS:
            columns[f"low{level}_s"] = np.exp(mean - places.least[level] * sd)
            columns[f"high{level}_s"] = np.exp(mean + places.least[level] * sd)
        announced = 100.0 * np.expm1(model.facts["mean_score"] * sd)
        columns["error_pct"] = np.maximum(announced, places.least["error_pct"])
    shown = {name: rounded(np.where(refused | np.isinf(values), np.nan, values)) for name, values in columns.items()}
    return ANSWERS.build(point=np.arange(n), status=[str(one) for one in places.status], reason=places.reason, **shown)


class Places:
    """Where points lie, against the runs: statuses, reasons, and what tests on the runs found at such places.

    `least` are the least scores of the intervals ("80", "95") and the least error to announce ("error_pct").
    """

    def __init__(self, model: InputModel, n: int) -> None:
        self.rules, self.status = model.rules, [AnswerStatus.OK] * n
        self.reason: list[str | None] = [None] * n
        self.least = {name: np.full(n, model.facts["quantiles"][name]) for name in LEVELS} | {"error_pct": np.zeros(n)}

    def settle(self, where: Bools, status: AnswerStatus, reason: list[str], test: Test | None = None) -> None:
        """Give some points a status and its reason; the first refusal stays, else the first status.

        Points that are answered all the same have at least the scores and the error of the test of such places.
        """
        for i in np.flatnonzero(where):
            if self.status[i] == AnswerStatus.OK or (status in REFUSED and self.status[i] not in REFUSED):
                self.status[i], self.reason[i] = status, reason[i]
        if test and status not in REFUSED:
            for name, values in self.least.items():
                values[where] = np.maximum(values[where], test[name])

    def judge(self, outside: Bools, distance: Floats, test: Test | None, reason: list[str]) -> None:
        """Answer or refuse points outside, by the rules and by the test of such places."""
        rules = self.rules
        answered, why_not = outside & (rules.outside == "predict"), "the runs do not suffice to test predictions there"
        if rules.outside == "refuse":
            why_not = "the rules refuse all points outside"
        elif is_small(test, rules):
            answered |= outside & (distance <= test["distance"])
            why_not = "it lies farther outside than predictions could be tested on the runs"
        elif test is not None:
            error, allowed = f"an error of {test['error_pct']:.0f}%", f"{100.0 * rules.largest_error:.0f}% are allowed"
            why_not = f"tests on the runs announce {error} there, and {allowed}"
        self.settle(outside & ~answered, AnswerStatus.REFUSED_OUTSIDE, [f"{one}; {why_not}" for one in reason])
        self.settle(answered, AnswerStatus.OUTSIDE, reason, test)


def is_small(test: Test | None, rules: LearnRules) -> TypeGuard[Test]:
    """Whether there is a test, and its error is one that the rules allow."""
    return test is not None and test["error_pct"] <= 100.0 * rules.largest_error


def rounded(values: Floats) -> Floats:
    """The values with 6 significant digits; NaN stays."""
    return np.array([float(f"{value:.{DIGITS - 1}e}") for value in values], np.float64)


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


MOST_CANDIDATES = 2000
"""Candidates that are compared; more are drawn from, because their covariances are held in memory."""


@one_thread()
def suggest(model: InputModel, candidates: pa.Table, cost: Cost | None = None) -> pa.Table:
    """SUGGESTIONS, the runs to make next, best first, as far as the budget and the number of runs go.

    Each next run is the one by which the candidates' mean variance falls most over the root of its cost. Candidates
    that the model refuses are left out. At most 2,000 candidates are compared; more are drawn from by seed.

    Parameters
    ----------
    model : InputModel
        What `learn` or `load` gave.
    candidates : pa.Table
        The inputs' columns, and the column of processors where the cost counts them.
    cost : Cost
        Unit, budget and number of runs; default: processor-seconds without a limit.

    Returns
    -------
    pa.Table
        A table of the kind SUGGESTIONS.

    Raises
    ------
    InputError
        If no processors are declared that the cost needs.

    Examples
    --------
    >>> from pipeline.inputs import Declaration, Input, LearnRules, learn
    >>> runs = pa.table({"n": list(range(1, 31)), "time_s": [0.5 * n * n for n in range(1, 31)]})
    >>> model = learn(runs, Declaration(inputs=(Input(name="n", type="log_number"),)), LearnRules(method="gp"))
    >>> suggest(model, pa.table({"n": [2.5, 8.5, 20.5]}), Cost(CostUnit.RUNS, n_runs=2)).num_rows
    2
    """
    cost = cost or Cost()
    answers = predict(model, candidates)
    usable = np.flatnonzero([one not in REFUSED for one in answers.column("status").to_pylist()])
    if len(usable) > MOST_CANDIDATES:
        usable = np.sort(np.random.default_rng([model.rules.seed, 5]).choice(usable, MOST_CANDIDATES, replace=False))
    if not len(usable):
        return SUGGESTIONS.empty()
    median_s = answers.column("median_s").to_numpy()[usable]
    prices = np.ones(len(usable)) if cost.unit == CostUnit.RUNS else median_s
    if cost.unit == CostUnit.PROC_SECONDS:
        if not model.declaration.procs:
            raise InputError("cost", "no column of processors", "one for proc-seconds", "declare it, or count seconds")
        prices = prices * numbers_of(candidates, model.declaration.procs)[usable]
    # Each run chosen lowers the covariances of all candidates under the first process.
    encoding = read_dataclass(Encoding, model.facts["encoding"])
    x = encoding.encode(raw_inputs(candidates, model.declaration))[usable]
    covariance, noise = process.posterior_covariance(model.arrays, x)
    total = np.maximum(np.diag(covariance), 0.0) + noise
    left, chosen, errors = np.inf if cost.budget is None else cost.budget, list[int](), [_error_pct(model, total)]
    most, free = len(usable) if cost.n_runs is None else cost.n_runs, np.ones(len(usable), bool)
    while len(chosen) < most and (possible := free & (prices <= left)).any():
        gains = (covariance * covariance).mean(axis=0) / total
        one = int(np.argmax(np.where(possible, gains / np.sqrt(prices), -1.0)))
        chosen.append(one)
        free[one], left = False, left - prices[one]
        column = covariance[:, one].copy()
        covariance -= np.outer(column, column) / total[one]
        total = np.maximum(np.diag(covariance), 0.0) + noise
        errors.append(_error_pct(model, total))
    places = np.array(chosen, np.int64)
    return SUGGESTIONS.build(
        order=np.arange(1, len(chosen) + 1), candidate=usable[places], median_s=median_s[places],
        cost=rounded(prices[places]), total_cost=rounded(np.cumsum(prices[places])),
        error_before_pct=rounded(np.array(errors[:-1])), error_after_pct=rounded(np.array(errors[1:])),
    )  # fmt: skip


def _error_pct(model: InputModel, variance: Floats) -> float:
    """The mean expected error of points, per cent of the runtime, scaled as answers scale their errors."""
    return float(100.0 * np.expm1(np.sqrt(variance) * float(model.facts["mean_score"])).mean())


def new_combinations(model: InputModel, runs: pa.Table) -> pa.Table:
    """Combinations of the inputs' values in the runs, without those that ran; at most 2,000, drawn by seed."""
    names = [one.name for one in model.declaration.inputs]
    known = runs.select(names)
    levels = [sorted(value for value in column.unique().to_pylist() if value is not None) for column in known.columns]
    ran = set(zip(*(column.to_pylist() for column in known.columns), strict=True))
    sizes, most = [len(values) for values in levels], MOST_CANDIDATES + len(ran)
    if prod(sizes) <= most:
        places: Ints = np.array(list(np.ndindex(*sizes)), np.int64)
    else:
        rng = np.random.default_rng([model.rules.seed, 8])
        places = np.unique(np.stack([rng.integers(size, size=most) for size in sizes], axis=1), axis=0)
    rows = [tuple(values[place] for values, place in zip(levels, row, strict=True)) for row in places.tolist()]
    new = [row for row in rows if row not in ran]
    if len(new) > MOST_CANDIDATES:
        drawn = np.random.default_rng([model.rules.seed, 7]).choice(len(new), MOST_CANDIDATES, replace=False)
        new = [new[place] for place in np.sort(drawn)]
    return pa.table([pa.array([row[i] for row in new], known.schema.field(i).type) for i in range(len(names))], names)
