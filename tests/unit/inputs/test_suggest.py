"""Suggested runs keep to the budget, and tell more than random ones."""

import numpy as np
import pyarrow as pa
import pytest

from pipeline.errors import InputError
from pipeline.inputs import Cost, CostUnit, Declaration, Input, predict, suggest
from tests.unit.inputs.simulated_runs import learnt, solver_runs

MODEL = learnt(solver_runs(30, noise=0.02))
CANDIDATES = solver_runs(200, seed=3)


def test_suggestions_keep_to_the_budget() -> None:
    rows = suggest(MODEL, CANDIDATES, Cost(budget=20.0))
    seconds, procs = rows.column("median_s").to_numpy(), CANDIDATES.column("p").to_numpy()
    chosen = rows.column("candidate").to_numpy()
    assert rows.num_rows > 3
    assert len(set(chosen)) == rows.num_rows
    assert rows.column("cost").to_numpy() == pytest.approx(seconds * procs[chosen], rel=1e-4)
    assert rows.column("total_cost").to_numpy()[-1] <= 20.0


def test_suggested_runs_lower_the_error_more_than_as_many_random_ones() -> None:
    runs = solver_runs(30, noise=0.02)
    first = learnt(runs)
    chosen = suggest(first, CANDIDATES, Cost(CostUnit.RUNS, n_runs=20)).column("candidate").to_numpy()
    rng, later = np.random.default_rng(0), solver_runs(300, seed=5)

    def error(more: np.ndarray) -> float:
        model = learnt(pa.concat_tables([runs, CANDIDATES.take(pa.array(more))]), outside="predict")
        found = predict(model, later).column("median_s").to_numpy()
        return float(np.nanmean(np.abs(np.log(found / later.column("truth_s").to_numpy()))))

    random = np.mean([error(rng.choice(200, 20, replace=False)) for _ in range(4)])
    assert error(chosen) < random


def test_cheap_runs_come_first_where_they_tell_as_much() -> None:
    by_cost = suggest(MODEL, CANDIDATES, Cost(n_runs=8)).column("median_s").to_numpy()
    by_runs = suggest(MODEL, CANDIDATES, Cost(CostUnit.RUNS, n_runs=8)).column("median_s").to_numpy()
    assert by_cost.mean() < by_runs.mean()


def test_the_error_before_the_first_run_is_the_mean_of_what_answers_announce() -> None:
    found = suggest(MODEL, CANDIDATES, Cost(CostUnit.RUNS, n_runs=1)).column("error_before_pct")[0].as_py()
    answers = predict(MODEL, CANDIDATES)
    is_inside = np.array([status == "ok" for status in answers.column("status").to_pylist()])
    assert is_inside.mean() > 0.8
    assert found == pytest.approx(answers.column("error_pct").to_numpy()[is_inside].mean(), rel=0.3)


def test_candidates_that_are_refused_are_left_out() -> None:
    points = pa.table({"n": [1e3, 1e3], "p": [4.0, 4.0], "solver": ["cg", "new"]})
    assert suggest(MODEL, points).column("candidate").to_pylist() == [0]


def test_what_a_suggestion_needs_is_said() -> None:
    runs = solver_runs(30)
    no_procs = Declaration(inputs=(Input(name="n", type="log_number"),))
    with pytest.raises(InputError, match="processors"):
        suggest(learnt(runs, no_procs), CANDIDATES)
