"""suggest: the runs to make next, by what they tell about all candidates and what they cost.

ALC: D. A. Cohn, Z. Ghahramani and M. I. Jordan, "Active learning with statistical models", JAIR 4, 1996. With trees the
covariance of two points is how often they share a leaf: E. Scornet, "Random forests and kernel methods", 2016.
"""

from math import prod

import numpy as np
import pyarrow as pa

from pipeline.arrays import Bools, Floats, Ints
from pipeline.errors import InputError
from pipeline.inputs.answers import REFUSED, predict, rounded
from pipeline.inputs.encoding import Encoding, numbers_of, raw_inputs
from pipeline.inputs.input_model import SUGGESTIONS, Cost, CostUnit, InputModel
from pipeline.inputs.methods import COVARIANCES
from pipeline.inputs.training import on_one_thread
from pipeline.report import read_dataclass

MOST_CANDIDATES = 2000
"""Candidates that are compared; more are drawn from, because their covariances are held in memory."""


@on_one_thread
def suggest(model: InputModel, candidates: pa.Table, cost: Cost | None = None) -> pa.Table:
    """SUGGESTIONS, the runs to make next, best first, as far as the budget and the number of runs go.

    Each next run is the one by which the candidates' mean variance falls most over the root of its cost. Candidates
    that the model refuses are left out. At most 2,000 candidates are compared; more are drawn from by seed.

    Parameters
    ----------
    model : InputModel
        What `learn` or `load` gave, of a method that knows how runs tell about one another: gp or trees.
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
        If no processors are declared that the cost needs, or the model's method has no covariance.

    Examples
    --------
    >>> from pipeline.inputs import Declaration, Input, LearnRules, learn
    >>> runs = pa.table({"n": list(range(1, 31)), "time_s": [0.5 * n * n for n in range(1, 31)]})
    >>> model = learn(runs, Declaration(inputs=(Input(name="n", type="log_number"),)), LearnRules(method="gp"))
    >>> suggest(model, pa.table({"n": [2.5, 8.5, 20.5]}), Cost(CostUnit.RUNS, n_runs=2)).num_rows
    2
    """
    cost = cost or Cost()
    if model.method not in COVARIANCES:
        found, expected = f"a model of method {model.method}", f"one of method {' or '.join(COVARIANCES)}"
        raise InputError("suggest", found, expected, "learn it again with --method gp")
    answers = predict(model, candidates)
    seconds = answers.column("median_s").to_numpy()
    usable = _drawn(np.array([one not in REFUSED for one in answers.column("status").to_pylist()], bool), model)
    if not len(usable):
        return SUGGESTIONS.empty()
    prices = _prices(model, candidates, seconds, cost)[usable]
    x = read_dataclass(Encoding, model.facts["encoding"]).encode(raw_inputs(candidates, model.declaration))[usable]
    return _suggestions(_Spread(model, x), usable, seconds, prices, cost)


def _drawn(usable: Bools, model: InputModel) -> Ints:
    places = np.flatnonzero(usable)
    if len(places) <= MOST_CANDIDATES:
        return places
    rng = np.random.default_rng([model.rules.seed, 5])
    return np.sort(rng.choice(places, MOST_CANDIDATES, replace=False))


def _prices(model: InputModel, candidates: pa.Table, seconds: Floats, cost: Cost) -> Floats:
    if cost.unit == CostUnit.RUNS:
        return np.ones(len(seconds))
    if cost.unit == CostUnit.SECONDS:
        return seconds
    if not model.declaration.procs:
        raise InputError("cost", "no column of processors", "one for proc-seconds", "declare it, or count seconds")
    return seconds * numbers_of(candidates, model.declaration.procs)


class _Spread:
    """Posterior covariances of the candidates, which each chosen run lowers."""

    def __init__(self, model: InputModel, x: Floats) -> None:
        self.covariance, self.noise = COVARIANCES[model.method](model.arrays, model.facts["method"], x)
        # Standard deviations are scaled by what the errors on held folds were in them, as answers scale theirs.
        self.scale = float(model.facts["mean_score"])

    def gains(self) -> Floats:
        """The fall of the mean variance that a run of each candidate brings."""
        total = np.maximum(np.diag(self.covariance), 0.0) + self.noise
        found: Floats = (self.covariance * self.covariance).mean(axis=0) / total
        return found

    def take(self, chosen: int) -> None:
        """The covariances after a run of a candidate."""
        column = self.covariance[:, chosen].copy()
        self.covariance -= np.outer(column, column) / (max(column[chosen], 0.0) + self.noise)

    def error_pct(self) -> float:
        """The mean expected error of the candidates, per cent of the runtime."""
        sds = np.sqrt(np.maximum(np.diag(self.covariance), 0.0) + self.noise) * self.scale
        return float(100.0 * np.expm1(sds).mean())


def _suggestions(spread: _Spread, usable: Ints, seconds: Floats, prices: Floats, cost: Cost) -> pa.Table:
    left = np.inf if cost.budget is None else cost.budget
    most = len(usable) if cost.n_runs is None else min(cost.n_runs, len(usable))
    chosen: list[int] = []
    free, errors = np.ones(len(usable), bool), [spread.error_pct()]
    while len(chosen) < most and (possible := free & (prices <= left)).any():
        one = int(np.argmax(np.where(possible, spread.gains() / np.sqrt(prices), -1.0)))
        free[one], left = False, left - prices[one]
        chosen.append(one)
        spread.take(one)
        errors.append(spread.error_pct())
    places = np.array(chosen, np.int64)
    return SUGGESTIONS.build(
        order=np.arange(1, len(chosen) + 1), candidate=usable[places], median_s=seconds[usable][places],
        cost=rounded(prices[places]), total_cost=rounded(np.cumsum(prices[places])),
        error_before_pct=rounded(np.array(errors[:-1])), error_after_pct=rounded(np.array(errors[1:])),
    )  # fmt: skip


def new_combinations(model: InputModel, runs: pa.Table) -> pa.Table:
    """Combinations of the inputs' values in the runs, without those that ran; at most 2,000, drawn by seed."""
    names = [one.name for one in model.declaration.inputs]
    levels = {name: sorted(value for value in runs.column(name).unique().to_pylist() if value is not None)
              for name in names}  # fmt: skip
    ran = set(zip(*(runs.column(name).to_pylist() for name in names), strict=True))
    places = _places([len(values) for values in levels.values()], MOST_CANDIDATES + len(ran), model.rules.seed)
    rows = [tuple(levels[name][place] for name, place in zip(names, row, strict=True)) for row in places]
    new = [row for row in rows if row not in ran]
    if len(new) > MOST_CANDIDATES:
        chosen = np.random.default_rng([model.rules.seed, 7]).choice(len(new), MOST_CANDIDATES, replace=False)
        new = [new[place] for place in np.sort(chosen)]
    types = runs.select(names).schema
    return pa.table([pa.array([row[i] for row in new], types.field(name).type) for i, name in enumerate(names)], names)


def _places(sizes: list[int], most: int, seed: int) -> list[tuple[int, ...]]:
    """Places in each list of values: all combinations where there are at most `most`, else distinct ones, drawn."""
    n_all = prod(sizes)
    if n_all <= most:
        return [tuple(int(place) for place in row) for row in np.ndindex(*sizes)]
    rng = np.random.default_rng([seed, 8])
    drawn = np.stack([rng.integers(size, size=most) for size in sizes], axis=1)
    return [tuple(int(place) for place in row) for row in np.unique(drawn, axis=0)]
