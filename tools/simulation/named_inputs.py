"""A sacct dump whose job names hold the inputs of the runs, which determine the runtimes; some names hold nothing."""

import numpy as np

HEADER = "JobID|JobName|User|Partition|Submit|Start|End|ElapsedRaw|TimelimitRaw|State|ReqCPUS|AllocCPUS"
APPLICATIONS = {"heat": ("ada", "bob"), "lattice": ("carl",)}
"""Applications whose names hold inputs, and who runs them."""
UNNAMED_SHARE = 0.3
START_S = 1_704_096_000
"""2024-01-01 08:00 UTC."""


def law_s(application: str, n: int, steps: int, procs: int) -> float:
    """The runtime of a run without noise, s."""
    if application == "heat":
        return 30.0 + 4e-6 * n**2 * steps / procs
    return 20.0 + 1.5e-7 * n**3 * steps**0.5 / procs**0.8


def named_inputs_log(n_jobs: int, seed: int, noise: float = 0.05) -> str:
    """The dump as text: jobs one after the other in time, a third of them with names that say nothing."""
    rng = np.random.default_rng(seed)
    clock_s, lines = float(START_S), [HEADER]
    for job in range(n_jobs):
        clock_s += float(rng.exponential(1_200.0)) + 1.0
        lines.append(_line(job, int(clock_s), rng, noise))
    return "\n".join(lines) + "\n"


def _line(job: int, submit_s: int, rng: np.random.Generator, noise: float) -> str:
    procs = int(2 ** rng.integers(0, 6))
    if rng.random() < UNNAMED_SHARE:
        name, user, runtime_s = "shell", "dora", int(np.exp(rng.normal(6.0, 1.0))) + 1
    else:
        application = str(rng.choice(list(APPLICATIONS)))
        user = str(rng.choice(APPLICATIONS[application]))
        n, steps = int(rng.choice([200, 400, 800, 1600])), int(rng.choice([100, 300, 1000]))
        name = f"{application}_n{n}_step{steps}"
        runtime_s = int(law_s(application, n, steps, procs) * np.exp(rng.normal(0.0, noise))) + 1
    limit_min = int(np.ceil(runtime_s * rng.uniform(1.5, 6.0) / 900.0)) * 15
    wait_s = int(rng.exponential(60.0))
    times = (submit_s, submit_s + wait_s, submit_s + wait_s + runtime_s)
    stamps = [str(np.datetime64(one, "s")) for one in times]
    cells = (job + 1, name, user, "batch", *stamps, runtime_s, limit_min, "COMPLETED", procs, procs)
    return "|".join(str(cell) for cell in cells)
