"""A small run whose phases repeat, on two machines: as traces of MPI calls, and as basic-block vectors with times."""

import numpy as np

from tools.simulation.mpi_steps import HERE, THERE, Machine, simulated_run
from tools.simulation.trace_csv import csv_lines

STEPS, RANKS = 600, 2
INTERVALS, BLOCK = 160, 1_000
"""Intervals of the basic-block vectors, and instructions of each."""


def trace(machine: Machine, seed: int) -> str:
    """The run's MPI calls as CSV, times in whole microseconds."""
    calls = simulated_run(STEPS, RANKS, machine, seed)[0]
    for name in ("t_start_s", "t_end_s"):
        place = calls.schema.get_field_index(name)
        times_s = np.round(calls.column(name).to_numpy(), 6)
        calls = calls.set_column(place, calls.schema.field(name), [times_s])
    return "\n".join(csv_lines(calls)) + "\n"


def kinds() -> list[int]:
    """The kind of each interval: a start, then sweeps of three intervals and updates of two in turn, then an end."""
    return [2, *(0 if i % 5 < 3 else 1 for i in range(INTERVALS - 2)), 3]


def block_vectors() -> str:
    """The vectors as valgrind's exp-bbv writes them; the last interval is shorter than the others."""
    lines = ("T:1:900   :2:100   ", "T:3:400   :4:600   ", "T:5:1000   ", "T:3:40   :4:60   ")
    return "".join(f"{lines[kind]}\n" for kind in kinds())


def interval_times(sweep_s: float, update_s: float, seed: int) -> str:
    """The CSV of the intervals' times on a machine that needs these for an interval of each kind, with 3% of noise."""
    noise = np.random.default_rng(seed).uniform(0.97, 1.03, INTERVALS)
    times_s = np.array([sweep_s, update_s, sweep_s, 0.1 * update_s])[kinds()] * noise
    return "interval,time_s\n" + "".join(f"{place},{time_s:.6f}\n" for place, time_s in enumerate(times_s.tolist()))


def phase_traces() -> dict[str, str]:
    """The traces of both machines by name, as text."""
    return {"steps.here.csv": trace(HERE, 1), "steps.there.csv": trace(THERE, 2)}


def block_files() -> dict[str, str]:
    """The vectors and the times of both machines by name, as text."""
    return {
        "blocks.bb": block_vectors(),
        "blocks.here.csv": interval_times(0.010, 0.005, 3),
        "blocks.there.csv": interval_times(0.014, 0.018, 4),
    }
