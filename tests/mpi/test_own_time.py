"""The whole way from a real run to a prediction: collector, phases, plan, times, runtime."""

import json
import logging
from pathlib import Path

import pytest

from flows.services.phase_folder import find, plan, predict, time_platform
from tests.mpi.conftest import Run

STEPS, CELLS, PAUSE_US = "500", "2000", "20000"
"""Steps longer than the scheduler's slices, so that other programs on this machine disturb few of them."""

FIGURES = ("platform", "runtime_s", "measured_s", "error", "set_share", "control_s", "status")


def test_a_tenth_of_a_real_run_tells_its_time_and_that_of_the_next_run(mpirun: Run, tmp_path: Path) -> None:
    _, first = mpirun("halo.c", STEPS, CELLS, PAUSE_US, ranks=2, name="first")
    printed, second = mpirun("halo.c", STEPS, CELLS, PAUSE_US, ranks=2, name="second")
    found = find(first, tmp_path / "out", application="halo")
    assert found["unmatched"] == found["open_receives"] == 0
    assert found["status"] == "ok" and found["coverage"] >= 0.95
    assert plan(tmp_path / "out", 0.1, None)["set_share"] <= 0.15
    for trace, platform in ((first, "itself"), (second, "again")):
        time_platform(tmp_path / "out", trace, platform)
        row = predict(tmp_path / "out", platform)
        logging.getLogger().info(json.dumps({name: row[name] for name in FIGURES}))
        assert abs(row["error"]) <= 0.05
    # The program's own clock leaves out little: the start of its field, and the end.
    assert row["measured_s"] == pytest.approx(float(printed.split()[0]), rel=0.05)
