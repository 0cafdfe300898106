"""A CSV of runs of a linear solver over four inputs, with a known runtime."""

import numpy as np

RUNS, SEED, NOISE = 30, 23, 0.03


def law_s(n: int, nb: int, p: int, q: int) -> float:
    """The runtime of a solve without noise, s."""
    return 1.0 + 2e-9 * n**3 / (p * q) + 1e-6 * n**2 / p + 2e-5 * n * q / nb


def solver_runs() -> str:
    """The CSV, as text: runs with inputs drawn from a few values, in any order."""
    rng, lines = np.random.default_rng(SEED), ["n,nb,p,q,time_s"]
    for _ in range(RUNS):
        n, nb = int(rng.choice([1000, 2000, 4000, 6000, 8000])), int(rng.choice([32, 64, 128, 256]))
        p, q = int(2 ** rng.integers(0, 4)), int(2 ** rng.integers(0, 4))
        lines.append(f"{n},{nb},{p},{q},{law_s(n, nb, p, q) * np.exp(rng.normal(0.0, NOISE)):.3f}")
    return "\n".join(lines) + "\n"
