"""The peers of models over inputs, which are methods of papers, learn what they can learn."""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from benchmarks import network, product_laws
from benchmarks.bench_inputs import nearest
from pipeline.inputs import Declaration, Input, InputType, LearnRules
from pipeline.inputs.encoding import Training, raw_inputs, usable_runs
from tests.unit.inputs.simulated_runs import SIZES, solver_runs


def training_of(runs: pa.Table, declaration: Declaration) -> Training:
    return usable_runs(runs, declaration, LearnRules()).training


@pytest.mark.parametrize(
    ("predicted", "most_pct"), [(network.predicted, 25.0), (product_laws.predicted, 3.0), (nearest, 60.0)]
)
def test_a_peer_learns_a_solver_s_runtime(predicted: Callable, most_pct: float) -> None:
    """The noise of each run is 4%. Each bound is some part above what was measured."""
    training, later = training_of(solver_runs(150), SIZES), solver_runs(400, seed=1)
    found = np.exp(predicted(training, training.encoding.encode(raw_inputs(later, SIZES))))
    assert 100 * np.abs(found / later.column("truth_s").to_numpy() - 1).mean() < most_pct


@pytest.mark.parametrize(("exponent", "logs"), [(2.0, 0), (1.0, 1), (0.5, 2), (3.0, 0)])
def test_laws_find_the_exponents_of_a_known_law(exponent: float, logs: int) -> None:
    rng = np.random.default_rng(0)
    n, m = np.exp(rng.uniform(2, 8, 80)), np.exp(rng.uniform(2, 8, 80))
    seconds = 5.0 + 1e-3 * n**exponent * np.log2(n) ** logs
    runs = pa.table({"n": n, "m": m, "time_s": seconds * np.exp(rng.normal(0, 0.01, 80))})
    numbers = Declaration(inputs=tuple(Input(name=one, type=InputType.LOG_NUMBER) for one in "nm"))
    law = product_laws.learnt_law(training_of(runs, numbers))
    largest = int(np.argmax([c if term else 0.0 for term, c in zip(law["terms"], law["coefficients"], strict=True)]))
    assert len(law["terms"]) == 2
    assert law["terms"][largest] == ((0, exponent, logs),)
    assert law["coefficients"] == pytest.approx([5.0, 1e-3], rel=0.1)


def test_ernest_s_law_is_one_of_the_laws() -> None:
    """Data by machines, their logarithm and their number: three terms at once, which one at a time do not find."""
    rng = np.random.default_rng(2)
    size, nodes = rng.choice([10.0, 20.0, 40.0, 80.0], 120), rng.choice([2.0, 4.0, 8.0, 16.0, 32.0], 120)
    seconds = 10.0 + 30.0 * size / nodes + 8.0 * np.log2(nodes) + 2.0 * nodes
    runs = pa.table({"size": size, "nodes": nodes, "time_s": seconds * np.exp(rng.normal(0, 0.02, 120))})
    numbers = Declaration(tuple(Input(name, InputType.LOG_NUMBER) for name in ("size", "nodes")), procs="nodes")
    training = training_of(runs, numbers)
    law = product_laws.learnt_law(training)
    assert law["terms"] == [(), ((0, 1.0, 0), (1, -1.0, 0)), ((1, 0.0, 1),), ((1, 1.0, 0),)]
    assert law["coefficients"] == pytest.approx([10.0, 30.0, 8.0, 2.0], rel=0.35)
    found = product_laws.predicted(training, training.x)
    assert np.abs(np.expm1(found - training.y)).mean() < 0.025
