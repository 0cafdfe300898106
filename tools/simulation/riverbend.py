"""The catalogue behind the main sample: whose applications follow which law, and how much is planted."""

import numpy as np

from tools.simulation.laws import Law, amdahl, constant, downey_high, downey_low
from tools.simulation.log import SimulatedLog, simulate_log
from tools.simulation.workload import Application

SEED = 20_240_108
MAX_PROCS = 512
DAYS = 119
ORDINARY_JOBS = 9_200
ANOMALIES = {
    "failed_start": 90, "hang": 45, "cancelled_running": 80, "past_request": 40, "flurry": 900, "probe": 1_428,
    "cron": 595, "cancelled_before_start": 210, "zero_runtime": 60, "negative_runtime": 12, "never_started": 35,
    "no_submit": 8, "starts_before_submit": 15, "no_procs": 25, "allocation_unknown": 20, "wait_unknown": 20,
    "checkpointed": 30,
}  # fmt: skip


def simulated_riverbend() -> SimulatedLog:
    """The main sample, always the same."""
    return simulate_log(
        np.random.default_rng(SEED), applications=APPLICATIONS, n_jobs=ORDINARY_JOBS, days=DAYS, max_procs=MAX_PROCS,
        anomalies=ANOMALIES, computer="Riverbend, a simulated cluster",
    )  # fmt: skip


def _low(hours: float, avg_parallelism: float, sigma: float) -> Law:
    return downey_low(hours * 3600, avg_parallelism, sigma)


def _high(hours: float, avg_parallelism: float, sigma: float) -> Law:
    return downey_high(hours * 3600, avg_parallelism, sigma)


def _amdahl(hours: float, serial_fraction: float) -> Law:
    return amdahl(hours * 3600, serial_fraction)


def _constant(hours: float) -> Law:
    return constant(hours * 3600)


def _doubling(first: int, last: int) -> tuple[int, ...]:
    return tuple(2**i for i in range(first.bit_length() - 1, last.bit_length()))


# user, executable, requested memory (MiB), law, sizes, log sd of repeats, weight
_ROWS: tuple[tuple[int, int, int, Law, tuple[int, ...], float, float], ...] = (
    # Downey low, sizes reach beyond 2A - 1
    (1, 1, 1024, _low(40, 14, 0.4), (1, 2, 4, 8, 12, 16, 24, 32, 48), 0.03, 1.4),
    (2, 2, 2048, _low(96, 30, 0.8), (2, 4, 8, 16, 32, 48, 64, 96), 0.04, 1.3),
    (3, 3, 512, _low(24, 6, 0.2), (1, 2, 4, 6, 8, 12, 16), 0.02, 1.5),
    (4, 4, 4096, _low(160, 60, 1.0), (4, 8, 16, 32, 64, 96, 128, 192), 0.05, 0.8),
    (5, 5, 2048, _low(300, 90, 0.5), (8, 16, 32, 64, 96, 128, 192, 256), 0.04, 0.5),
    (6, 6, 1024, _low(12, 10, 0.0), (1, 2, 4, 8, 16, 32), 0.02, 1.6),
    (7, 7, 1536, _low(60, 22.5, 0.65), (2, 4, 8, 16, 24, 36, 64), 0.06, 1.2),
    (8, 8, 3072, _low(80, 40, 0.3), (4, 8, 16, 32, 48, 64, 100, 128), 0.03, 1.0),
    (9, 9, 1024, _low(30, 18, 0.9), (1, 2, 4, 8, 16, 32, 64), 0.08, 1.3),
    (10, 10, 2048, _low(200, 120, 0.7), (16, 32, 64, 128, 192, 256, 384), 0.05, 0.5),
    # Downey high, sizes reach beyond A + A sigma - sigma
    (11, 11, 1024, _high(40, 8, 1.5), _doubling(1, 64), 0.03, 1.2),
    (12, 12, 2048, _high(100, 20, 2.0), _doubling(2, 128), 0.04, 1.0),
    (13, 13, 1024, _high(60, 12, 3.0), (2, 4, 8, 16, 32, 48, 64, 96), 0.05, 1.1),
    (14, 14, 4096, _high(250, 40, 1.2), (4, 8, 16, 32, 64, 96, 128, 256), 0.04, 0.5),
    (15, 15, 512, _high(24, 5, 4.0), _doubling(1, 32), 0.02, 1.5),
    (16, 16, 3072, _high(300, 60, 2.5), (8, 16, 32, 64, 128, 192, 256, 384), 0.06, 0.4),
    (17, 17, 2048, _high(90, 30, 1.1), (4, 8, 16, 32, 48, 64, 128), 0.03, 1.0),
    (18, 18, 1536, _high(50, 16, 6.0), (2, 4, 8, 16, 32, 64, 128, 192), 0.05, 0.9),
    (19, 19, 1024, _high(36, 10, 2.0), (1, 2, 4, 8, 16, 24, 32, 64), 0.10, 1.3),
    (20, 20, 2560, _high(140, 25, 3.5), _doubling(4, 256), 0.04, 0.7),
    # Amdahl
    (21, 21, 1024, _amdahl(40, 0.05), _doubling(1, 64), 0.03, 1.2),
    (22, 22, 2048, _amdahl(120, 0.01), _doubling(4, 128), 0.04, 0.8),
    (23, 23, 512, _amdahl(20, 0.15), _doubling(1, 32), 0.02, 1.3),
    (24, 24, 3072, _amdahl(200, 0.004), _doubling(8, 256), 0.05, 0.5),
    (25, 25, 1536, _amdahl(60, 0.03), _doubling(2, 128), 0.06, 1.0),
    (1, 26, 768, _amdahl(16, 0.3), _doubling(1, 16), 0.04, 1.2),
    (5, 27, 2048, _amdahl(90, 0.02), (2, 4, 8, 16, 32, 64, 96), 0.03, 0.8),
    (12, 28, 1024, _amdahl(30, 0.08), (1, 2, 4, 6, 8, 12, 24), 0.08, 1.0),
    (8, 29, 4096, _amdahl(400, 0.002), _doubling(16, 512), 0.05, 0.3),
    # constant, many on one size
    (2, 30, 2048, _constant(1.5), (1,), 0.05, 1.4),
    (4, 31, 1024, _constant(3.0), (16,), 0.08, 1.0),
    (6, 32, 256, _constant(0.5), (1,), 0.03, 1.8),
    (9, 33, 2048, _constant(6.0), (64,), 0.06, 0.5),
    (14, 34, 512, _constant(2.0), _doubling(1, 8), 0.05, 1.0),
    (19, 35, 1024, _constant(0.25), _doubling(4, 32), 0.10, 1.0),
    (22, 36, 3072, _constant(10.0), (8,), 0.04, 0.8),
    (25, 37, 512, _constant(0.75), (1, 2), 0.05, 1.0),
    # two sizes only
    (3, 38, 1024, _amdahl(30, 0.02), (8, 16), 0.03, 0.8),
    (10, 39, 2048, _low(120, 50, 0.5), (32, 64), 0.04, 0.6),
    (16, 40, 1024, _high(150, 40, 2.0), (16, 128), 0.05, 0.5),
    (23, 41, 512, _amdahl(10, 0.1), (1, 4), 0.04, 1.0),
    # sizes end before the bend: the tail is anybody's guess
    (7, 42, 2048, _low(150, 200, 0.5), _doubling(4, 64), 0.04, 0.6),
    (11, 43, 1024, _high(200, 150, 2.0), _doubling(8, 128), 0.05, 0.5),
    (17, 44, 2048, _low(250, 300, 0.8), _doubling(8, 128), 0.03, 0.5),
    (20, 45, 1024, _high(90, 100, 1.5), _doubling(4, 32), 0.04, 0.6),
    (24, 46, 1536, _low(60, 64, 1.0), _doubling(2, 32), 0.05, 0.8),
    # the same executable in other hands, and with other memory: groups of their own
    (13, 2, 1024, _low(48, 15, 0.8), (2, 4, 8, 16, 32, 48), 0.04, 1.0),
    (18, 21, 1024, _amdahl(25, 0.1), _doubling(1, 32), 0.04, 1.0),
    (1, 1, 2048, _low(80, 28, 0.4), (2, 4, 8, 16, 24, 32, 48, 64, 96), 0.03, 0.8),
)

APPLICATIONS = tuple(
    Application(user, executable, 1024 * mem_mib, law, sizes, log_sd, weight)
    for user, executable, mem_mib, law, sizes, log_sd, weight in _ROWS
)
