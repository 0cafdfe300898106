"""Simulated runs in the manner of published sets: AMG, Kripke, ExaFMM (Hutter and Solomonik 2023) and C3O (Will 2021).

Inputs, ranges and interactions follow the codes; all constants are invented. One run in thirty is disturbed.
"""

import numpy as np
import numpy.typing as npt
import pandas as pd

from benchmarks.inputs_data import CATEGORY, LOG, RunSet, declared

Floats = npt.NDArray[np.float64]
CORES = 64
"""Of a node."""


def _sizes(rng: np.random.Generator, n: int, low: float, high: float) -> Floats:
    return np.round(np.exp(rng.uniform(np.log(low), np.log(high), n)))


def _powers(rng: np.random.Generator, n: int, most: int) -> Floats:
    return 2.0 ** rng.integers(0, most + 1, n)


def _layout(rng: np.random.Generator, n: int) -> tuple[Floats, Floats, Floats, Floats]:
    """Threads of a process, processes of a node, nodes, and what more threads than cores cost."""
    threads, ranks, nodes = _powers(rng, n, 6), _powers(rng, n, 6), _powers(rng, n, 7)
    return threads, ranks, nodes, 1 + 0.45 * np.log2(np.maximum(threads * ranks / CORES, 1))


def _noisy(rng: np.random.Generator, seconds: Floats, noise: float = 0.05) -> Floats:
    n = len(seconds)
    return seconds * np.exp(rng.normal(0, noise, n) + (rng.random(n) < 1 / 30) * rng.exponential(0.3, n))


def _named(codes: npt.NDArray[np.int64], prefix: str) -> list[str]:
    return [f"{prefix}{code}" for code in codes]


def amg(n: int, seed: int = 1) -> RunSet:
    """Algebraic multigrid: local grid, coarsening, relaxation and interpolation, threads, processes, nodes."""
    rng, fixed = np.random.default_rng(seed), np.random.default_rng(99)
    nx, ny, nz = (_sizes(rng, n, 8, 128) for _ in range(3))
    threads, ranks, nodes, crowded = _layout(rng, n)
    coarsen, relax, interp = (rng.integers(0, 7, n) for _ in range(3))
    setup, complexity = np.exp(fixed.normal(0, 0.5, 7)), 1 + np.exp(fixed.normal(-0.7, 0.5, (7, 7)))
    sweep, convergence = np.exp(fixed.normal(0, 0.4, 7)), np.exp(fixed.normal(0, 0.35, (7, 7)))
    procs, per_rank = ranks * nodes, np.minimum(threads, np.maximum(CORES / ranks, 1))
    bandwidth = np.minimum(np.minimum(threads * ranks, CORES), 22) / ranks
    longest, shortest = np.maximum(np.maximum(nx, ny), nz), np.minimum(np.minimum(nx, ny), nz)
    steps = 8 * convergence[coarsen, interp] * (1 + 0.15 * np.log2(procs)) * (1 + 0.25 * np.log(longest / shortest))
    work = nx * ny * nz * complexity[coarsen, interp]
    smooth = np.maximum(work * 4e-9 * sweep[relax] / per_rank, work * 9e-9 / bandwidth) * (
        1 + 0.03 * threads * (relax % 2)
    )
    levels, surface = np.log2(longest * np.cbrt(procs)), nx * ny + ny * nz + nx * nz
    halo = levels * (2e-5 * (1 + 0.3 * np.log2(procs)) + surface * 2e-9 * np.where(nodes > 1, 3, 1)) * (1 + ranks / 32)
    seconds = work * 3e-8 * setup[coarsen] / np.minimum(per_rank, bandwidth + 0.5)
    seconds = (seconds + steps * (smooth + np.where(procs > 1, halo, 0))) * crowded + 3e-3 * np.log2(procs + 1)
    runs = pd.DataFrame({
        "nx": nx, "ny": ny, "nz": nz, "threads": threads, "ranks": ranks, "nodes": nodes,
        "coarsen": _named(coarsen, "c"), "relax": _named(relax, "r"), "interp": _named(interp, "i"),
        "time_s": _noisy(rng, seconds), "procs": procs,
    })  # fmt: skip
    types = dict.fromkeys(("nx", "ny", "nz", "threads", "ranks", "nodes"), LOG)
    types |= dict.fromkeys(("coarsen", "relax", "interp"), CATEGORY)
    return RunSet("AMG-like", runs, declared(types, procs="procs"), (512, 2048, 10_000))


def kripke(n: int, seed: int = 1) -> RunSet:
    """Particle transport: groups, moments, directions, their sets, layout of data, solver, and the machine's part."""
    rng, fixed = np.random.default_rng(seed), np.random.default_rng(7)
    groups, quad, legendre = _sizes(rng, n, 8, 128), _sizes(rng, n, 8, 128), rng.integers(0, 6, n).astype(float)
    dset = np.minimum(2.0 ** rng.integers(3, 7, n), 2 ** np.floor(np.log2(quad)))
    gset = np.minimum(_powers(rng, n, 5), 2 ** np.floor(np.log2(groups)))
    layout, solver = rng.integers(0, 6, n), rng.integers(0, 2, n)
    threads, ranks, nodes, crowded = _layout(rng, n)
    own, power = np.exp(fixed.normal(0, 0.3, 6)), fixed.normal(0, 0.25, 6)
    per_rank = np.minimum(threads, np.maximum(CORES / ranks, 1))
    cells, speed = 32.0**3, per_rank / (1 + 0.05 * per_rank * own[layout])
    moments, procs = (legendre + 1) ** 2, ranks * nodes
    dense = cells * groups * (quad + moments) * moments**0.6 * 1.2e-9 * own[layout] * (groups / 32) ** power[layout]
    sweep = cells * groups * quad * 2e-9 * own[(layout + 2) % 6] * (1 + 4 / np.minimum(dset * gset, 64)) / speed
    stages, parts = np.cbrt(procs) * np.where(solver == 0, 3, 6.6), (quad / dset) * (groups / gset)
    messages = stages * parts * 2e-5 * np.where(nodes > 1, 2, 1) * np.where(solver == 1, 0.3, 1)
    memory = np.maximum(1, np.minimum(threads * ranks, CORES) / 24)
    seconds = 10 * (dense / speed * memory**0.5 + sweep * memory**0.3 + sweep * stages / (2 * parts + 1) + messages)
    runs = pd.DataFrame({
        "groups": groups, "legendre": legendre, "quad": quad, "dset": dset, "gset": gset, "threads": threads,
        "ranks": ranks, "nodes": nodes, "layout": _named(layout, "l"), "solver": _named(solver, "s"),
        "time_s": _noisy(rng, seconds * crowded + 0.01), "procs": procs,
    })  # fmt: skip
    names = ("groups", "legendre", "quad", "dset", "gset", "threads", "ranks", "nodes")
    types = dict.fromkeys(names, LOG) | dict.fromkeys(("layout", "solver"), CATEGORY)
    return RunSet("Kripke-like", runs, declared(types, procs="procs"), (512, 2048))


def exafmm(n: int, seed: int = 1) -> RunSet:
    """Fast multipole method: particles, order, particles of a leaf (depth is a step), and the machine's part."""
    rng = np.random.default_rng(seed)
    particles, per_leaf = _sizes(rng, n, 4096, 1_048_576), _sizes(rng, n, 16, 1024)
    order, level = rng.integers(4, 16, n).astype(float), rng.integers(0, 5, n).astype(float)
    threads, ranks, nodes, crowded = _layout(rng, n)
    procs, leaves = ranks * nodes, 8.0 ** np.ceil(np.log2(np.maximum(particles / per_leaf, 1)) / 3)
    usable = np.minimum(np.minimum(threads, np.maximum(CORES / ranks, 1)), leaves)
    work = 27 * particles * (particles / leaves) * 2e-9 + 216 * leaves * order**3 * 2.5e-9 + particles * order**2 * 4e-9
    tree = particles * np.log2(particles) * 6e-9 / np.sqrt(usable) / np.minimum(procs, 64) ** 0.7
    halo = (2e-4 + level * 5e-5 + particles / procs * 1e-8 + order**2 * 3e-6 * procs**0.3) * np.log2(procs)
    seconds = work / usable * (1 + 0.04 * usable) / np.minimum(procs, leaves) + tree + halo
    runs = pd.DataFrame({
        "particles": particles, "order": order, "per_leaf": per_leaf, "level": level, "threads": threads,
        "ranks": ranks, "nodes": nodes, "time_s": _noisy(rng, seconds * crowded + 1e-3), "procs": procs,
    })  # fmt: skip
    types = dict.fromkeys(("particles", "order", "per_leaf", "level", "threads", "ranks", "nodes"), LOG)
    return RunSet("ExaFMM-like", runs, declared(types, procs="procs"), (512, 2048))


def c3o(seed: int = 1, repeats: int = 5) -> RunSet:
    """A dataflow job: machine type, machines, data, a parameter, and five repeats, which share a factor."""
    rng = np.random.default_rng(seed)
    rows = []
    for machine, (speed, memory) in {"c4": (0.9, 8), "m4": (1.0, 16), "r4": (1.05, 32)}.items():
        for nodes in (2.0, 4.0, 6.0, 8.0, 10.0, 12.0):
            for size in (10.0, 15.0, 20.0, 25.0, 30.0):
                for k in (3.0, 5.0, 7.0, 9.0):
                    if rng.random() < 0.5:
                        continue
                    spilt = 1 + 0.8 * max(0.0, size / (nodes * memory * 0.3) - 1)
                    seconds = 20 + size * k * 1.8 / nodes * speed * spilt + 6 * np.log(nodes) + 1.1 * nodes + 2 * k
                    seconds *= np.exp(rng.normal(0, 0.03))
                    rows += [
                        (machine, nodes, size, k, seconds * np.exp(0.02 * rng.standard_t(4))) for _ in range(repeats)
                    ]
    runs = pd.DataFrame(rows, columns=["machine", "nodes", "size", "k", "time_s"])
    types = {"machine": CATEGORY} | dict.fromkeys(("nodes", "size", "k"), LOG)
    return RunSet("C3O-like", runs, declared(types, procs="nodes"), (0.2, 0.8))
