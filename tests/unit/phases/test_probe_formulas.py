"""Equations (4.7) to (4.9), by hand."""

import numpy as np
import pytest

from tests.unit.phases.probe_formulas import (
    cluster_performance,
    expanded_runtime,
    instrumentation_factor,
    steady_performance,
    worker_performance,
)


def test_the_papers_example_of_a_time_unit() -> None:
    """Strube 2011, section 4.9: of 120 s, a phase of 50% that takes 3 s: each of its seconds is worth 20 s."""
    whole = expanded_runtime(120, np.array([0.5, 0.5]), np.array([3.0, 6.0]), np.array([4.0, 6.0]))
    assert whole == pytest.approx(20 * 4 + 10 * 6)


def test_the_same_machine_takes_the_same_time_less_the_instrumentation() -> None:
    shares, times_s = np.array([0.2, 0.5, 0.3]), np.array([1.0, 2.0, 3.0])
    factor = instrumentation_factor(100, 125)
    assert factor == pytest.approx(0.8)
    assert expanded_runtime(125, shares, times_s, times_s, factor) == pytest.approx(100)


def test_phases_that_were_left_out_count_as_the_others() -> None:
    part = expanded_runtime(100, np.array([0.4, 0.4]), np.array([1.0, 1.0]), np.array([2.0, 2.0]))
    assert part == pytest.approx(200)


@pytest.mark.parametrize("share", [0.0, -0.1])
def test_a_phase_without_a_share_is_refused(share: float) -> None:
    with pytest.raises(ValueError, match="positive"):
        expanded_runtime(10, np.array([share]), np.array([1.0]), np.array([1.0]))
    with pytest.raises(ValueError, match="positive"):
        instrumentation_factor(0, 1)


LINKS = {
    "task_operations": 1e9, "lan_bytes_per_s": 1e8, "task_communication_bytes": 1e6, "n_tasks": 10,
    "internet_in_bytes_per_s": 1e6, "inter_task_bytes": 2e6, "internet_out_bytes_per_s": 1e6, "inter_result_bytes": 4e6,
}  # fmt: skip


def test_the_scarcest_stage_bounds_the_cluster() -> None:
    workers = cluster_performance([worker_performance(1e9, 2.0), worker_performance(1e9, 0.5)])
    assert workers == pytest.approx(2.5e9)
    assert steady_performance(workers, **(LINKS)) == pytest.approx(2.5e9)  # the results leave at 2.5e9 too
    assert steady_performance(1e8, **LINKS) == pytest.approx(1e8)
    assert steady_performance(1e15, **LINKS) == pytest.approx(1e9 * 10 * 1e6 / 4e6)
    assert steady_performance(1e15, **LINKS | {"inter_result_bytes": 1.0}) == pytest.approx(1e9 * 10 * 1e6 / 2e6)
    assert steady_performance(1e15, **LINKS | {"lan_bytes_per_s": 1e3}) == pytest.approx(1e9 * 1e3 / 1e6)


def test_amounts_are_positive() -> None:
    with pytest.raises(ValueError, match="n_tasks = 0"):
        steady_performance(1.0, **LINKS | {"n_tasks": 0})
    with pytest.raises(ValueError, match="task_s"):
        worker_performance(1.0, 0.0)
