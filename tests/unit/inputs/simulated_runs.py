"""Runs of codes whose runtimes are known."""

from typing import Any

import numpy as np
import pyarrow as pa

from pipeline.inputs import Declaration, Input, InputModel, InputType, LearnRules, learn

SIZES = Declaration(
    inputs=(
        Input(name="n", type=InputType.LOG_NUMBER),
        Input(name="p", type=InputType.LOG_NUMBER),
        Input(name="solver", type=InputType.CATEGORY),
    ),
    procs="p",
)


def solver_runs(n_runs: int, seed: int = 0, noise: float = 0.05) -> pa.Table:
    """t = factor of the solver * (1e-6 n^2/p + 1e-3 log2 p) s, with log-normal noise."""
    rng = np.random.default_rng(seed)
    n, p = np.round(np.exp(rng.uniform(6, 9, n_runs))), 2.0 ** rng.integers(0, 7, n_runs)
    solver = rng.integers(0, 3, n_runs)
    seconds = np.array([1.0, 1.5, 3.0])[solver] * (1e-6 * n**2 / p + 1e-3 * np.log2(p))
    return pa.table(
        {
            "n": n, "p": p, "solver": np.array(["cg", "gmres", "smg"])[solver],
            "time_s": seconds * np.exp(rng.normal(0.0, noise, n_runs)), "truth_s": seconds,
        }
    )  # fmt: skip


def learnt(runs: pa.Table, declaration: Declaration = SIZES, **settings: Any) -> InputModel:
    """The model of these runs."""
    return learn(runs, declaration, LearnRules(**settings))
