"""`make bench` runs every benchmark without arguments and stops at the first that fails."""

import pytest

from benchmarks import bench_guard


def test_without_a_slurm_nothing_is_measured_and_make_bench_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench_guard.main([]) == 0
    assert "Without the slurm.conf of a Slurm nothing was measured" in capsys.readouterr().err
