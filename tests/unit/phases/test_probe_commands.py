"""The four steps on basic-block vectors, as the commands take them: with times of the reference run, and without."""

from pathlib import Path

import numpy as np
import pytest

from flows.services.phase_folder import find, plan, predict, time_platform
from pipeline.errors import InputError

N_INTERVALS = 120


@pytest.fixture
def vectors(tmp_path: Path) -> Path:
    """A program of two kinds of steps, a start and a shorter last interval."""
    kinds = ("T:1:900   :2:100   \n", "T:3:400   :4:600   \n", "T:5:1000   \n")
    lines = [kinds[2], *(kinds[i // 3 % 2] for i in range(N_INTERVALS - 2)), "T:3:40   :4:60   \n"]
    path = tmp_path / "steps.bb"
    path.write_text("".join(lines) + "#   Total instructions: 119100\n")
    return path


def written_times(folder: Path, name: str, times_s: np.ndarray) -> Path:
    path = folder / name
    rows = [f"{i},{time_s!r}" for i, time_s in enumerate(times_s.tolist()) if not np.isnan(time_s)]
    path.write_text("interval,time_s\n" + "\n".join(rows) + "\n")
    return path


def interval_times(slow: float, seed: int) -> np.ndarray:
    """Seconds of the intervals; `slow` is the factor of the second kind of steps."""
    kinds = np.array([0, *(i // 3 % 2 for i in range(N_INTERVALS - 2)), 0])
    times_s = np.where(kinds == 1, 0.010 * slow, 0.005) * np.random.default_rng(seed).uniform(0.97, 1.03, N_INTERVALS)
    times_s[-1] *= 0.1
    return times_s


@pytest.mark.parametrize("is_timed", [True, False])
def test_five_intervals_of_each_phase_tell_the_time_elsewhere(vectors: Path, tmp_path: Path, is_timed: bool) -> None:
    here = written_times(tmp_path, "here.csv", interval_times(1, 1)) if is_timed else None
    there_s = interval_times(3, 2)
    out = tmp_path / "out"
    found = find(vectors, out, application=None, times=here)
    # The last interval is shorter: a phase of its own beside those of the three kinds of steps.
    assert len(found["phases"]) == 4 and found["input"] == "bbv" and found["comments"] == 1
    assert (found["runtime_s"] is None) is not is_timed
    assert ("accuracy_with_2" in found) is is_timed
    planned = plan(out, None, 5)
    assert all((row["reference_s"] is None) is not is_timed for row in planned["plan"])
    time_platform(out, written_times(tmp_path, "there.csv", there_s), "new")
    row = predict(out, "new")
    assert row["measured_s"] == pytest.approx(there_s.sum())
    assert abs(row["error"]) < 0.02 and row["runtime_s_lo95"] <= row["measured_s"] <= row["runtime_s_hi95"]
    assert row["set_share"] < 0.2
    assert row["control_s"] is not None and row["runtime_s_lo80"] > row["runtime_s_lo95"]


def test_only_planned_intervals_have_to_be_timed(vectors: Path, tmp_path: Path) -> None:
    out, there_s = tmp_path / "out", interval_times(3, 2)
    find(vectors, out, application=None)
    planned = {row["from_event"] // 1000 for row in plan(out, None, 5)["plan"]}
    some_s = np.where(np.isin(np.arange(N_INTERVALS), sorted(planned)), there_s, np.nan)
    time_platform(out, written_times(tmp_path, "some.csv", some_s), "new")
    row = predict(out, "new")
    assert row["measured_s"] is None and row["runtime_s"] == pytest.approx(there_s.sum(), rel=0.02)
    some_s[min(planned)] = np.nan
    with pytest.raises(InputError, match="the times of all planned occurrences"):
        time_platform(out, written_times(tmp_path, "few.csv", some_s), "new")


def test_times_of_another_run_are_refused(vectors: Path, tmp_path: Path) -> None:
    short = written_times(tmp_path, "short.csv", np.ones(N_INTERVALS - 1))
    with pytest.raises(InputError, match="no time of interval 119"):
        find(vectors, tmp_path / "out", application=None, times=short)
    long = written_times(tmp_path, "long.csv", np.ones(N_INTERVALS + 1))
    with pytest.raises(InputError, match="interval 120"):
        find(vectors, tmp_path / "out", application=None, times=long)


def test_a_trace_takes_no_times(tmp_path: Path) -> None:
    trace = tmp_path / "run.csv"
    trace.write_text("rank,seq,op,peer,tag,count,bytes,t_start,t_end\n0,0,MPI_Init,,,,,0,0\n0,1,MPI_Finalize,,,,,1,1\n")
    with pytest.raises(InputError, match="a trace holds its times"):
        find(trace, tmp_path / "out", application=None, times=trace)
