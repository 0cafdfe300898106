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


def solver_codes(n_runs: int, seed: int = 0) -> pa.Table:
    """Runs of seven solvers, whose numbers do not tell their speed, and of sweeps, whose numbers are counts."""
    rng = np.random.default_rng(seed)
    n, solver, sweeps = np.exp(rng.uniform(3, 7, n_runs)), rng.integers(0, 7, n_runs), rng.integers(1, 7, n_runs)
    speed = np.array([1.0, 6.0, 0.7, 3.0, 9.0, 0.4, 4.0])[solver]
    seconds = 1e-3 * n**1.5 * speed * (2.0 + sweeps) * np.exp(rng.normal(0, 0.05, n_runs))
    procs = 2 ** rng.integers(0, 4, n_runs)
    return pa.table({"n": n, "solver": solver, "sweeps": sweeps, "procs": procs, "time_s": seconds})


def learnt(runs: pa.Table, declaration: Declaration = SIZES, **settings: Any) -> InputModel:
    """The model of these runs."""
    return learn(runs, declaration, LearnRules(**settings))
