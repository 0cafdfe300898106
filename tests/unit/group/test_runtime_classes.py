"""Runtime classes: problem sizes nothing names are found by their factors; one class stays one."""

import numpy as np
import pytest

from pipeline.group.runtime_classes import find_classes, runtime_classes
from pipeline.tables import JOBS


def made(factors: list[float], n_jobs: int, seed: int, log_sd: float = 0.1) -> tuple[np.ndarray, np.ndarray]:
    """Processors and log runtimes of jobs on one Amdahl curve times one of the factors each."""
    rng = np.random.default_rng(seed)
    procs = 2 ** rng.integers(0, 7, n_jobs)
    log_t = np.log(1000 * (0.05 + 0.95 / procs)) + np.log(rng.choice(factors, n_jobs))
    return procs, log_t + log_sd * rng.standard_normal(n_jobs)


@pytest.mark.parametrize("factors", [[1.0, 4.0], [1.0, 3.0, 9.0]])
def test_classes_are_found_with_their_factors(factors: list[float]) -> None:
    for seed in range(10):
        offsets, counts = find_classes(*made(factors, 300, seed))
        np.testing.assert_allclose(np.exp(offsets - offsets[0]), factors, rtol=0.1)
        assert counts.sum() == 300


def test_one_class_stays_one() -> None:
    """Among 100 groups of one class, at a spread of 10% and of 50%, none is split."""
    for log_sd in (0.1, 0.5):
        found = [len(find_classes(*made([1.0], 100, seed, log_sd))[0]) for seed in range(50)]
        assert found == [1] * 50


UNIMODAL = {
    "t with 2 degrees of freedom": lambda rng, n: 0.3 * rng.standard_t(2, n),
    "exponential runtimes": lambda rng, n: np.log(rng.exponential(1, n)),
    "Weibull runtimes, half the exponent": lambda rng, n: 2 * np.log(rng.exponential(1, n)),
    "Pareto runtimes": lambda rng, n: rng.exponential(1, n),
    "a tail of short runs": lambda rng, n: -rng.exponential(0.5, n),
    "even over a factor of three": lambda rng, n: rng.uniform(0, np.log(3), n),
    "even over a factor of thirty": lambda rng, n: rng.uniform(0, np.log(30), n),
    "a half-normal tail": lambda rng, n: 0.5 * np.abs(rng.standard_normal(n)) + 0.15 * rng.standard_normal(n),
}


@pytest.mark.parametrize("kind", UNIMODAL)
def test_a_skewed_or_long_tailed_runtime_is_one_class(kind: str) -> None:
    """Two classes describe most of these far better than one, by any criterion; yet none has a valley."""
    rng = np.random.default_rng(7)
    n_split = 0
    for n_jobs in (60, 200, 1000):
        for _ in range(20):
            procs = 2 ** rng.integers(0, 6, n_jobs)
            log_t = np.log(1000 * (0.05 + 0.95 / procs)) + UNIMODAL[kind](rng, n_jobs)
            n_split += len(find_classes(procs, log_t)[0]) > 1
    assert n_split <= 1


def test_skewed_classes_are_still_two() -> None:
    rng = np.random.default_rng(8)
    for _ in range(10):
        procs, log_t = made([1.0, 6.0], 300, int(rng.integers(1000)), 0.1)
        assert len(find_classes(procs, log_t + rng.exponential(0.2, 300))[0]) == 2


def test_the_unit_of_time_does_not_matter() -> None:
    procs, log_t = made([1.0, 4.0], 200, 1)
    seconds, minutes = find_classes(procs, log_t), find_classes(procs, log_t - np.log(60))
    np.testing.assert_allclose(np.diff(seconds[0]), np.diff(minutes[0]), rtol=1e-6)


def test_the_table_names_groups_with_classes_alone() -> None:
    (procs, log_t), (_, single) = made([1.0, 4.0], 200, 2), made([1.0], 200, 2)
    jobs = JOBS.build(
        site=["s"] * 400, job_id=[str(i) for i in range(400)], restart=np.zeros(400, np.int64),
        source_file=["f"] * 400, source_line=np.arange(1, 401), procs=np.tile(procs, 2),
        runtime_s=np.exp(np.concatenate([log_t, single])), group_id=["two"] * 200 + ["one"] * 200,
    )  # fmt: skip
    table, report = runtime_classes(jobs)
    assert table.column("group_id").to_pylist() == ["two", "two"]
    assert table.column("runtime_class").to_pylist() == [1, 2]
    assert table.column("class_factor").to_pylist() == pytest.approx([1, 4], rel=0.1)
    assert sum(table.column("n_jobs").to_pylist()) == 200
    assert report.facts == {"groups_with_classes": 1}
    assert runtime_classes(JOBS.empty())[0].num_rows == 0
