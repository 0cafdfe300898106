"""The study of moldable jobs: what it prints, and that the true curves are what it takes them to be."""

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.moldable_curves import MoldableLog, read_moldable_log, true_curves
from benchmarks.moldable_engine import replay_moldable
from benchmarks.moldable_replay import StudySettings, candidates_of, choices_of, main, study
from pipeline.errors import InputError
from pipeline.schedule.engine import ReplayOptions, replay

SAMPLES = Path(__file__).resolve().parents[3] / "data_samples"
TRUTH = SAMPLES / "riverbend.truth.json"
LAW = [(n, 100.0 * (0.1 + 0.9 / n)) for n in (1, 2, 4, 8, 16, 32, 64)]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first part of the sample, with its header."""
    import gzip

    lines = gzip.decompress((SAMPLES / "riverbend.swf.gz").read_bytes()).decode().splitlines(keepends=True)
    path = tmp_path_factory.mktemp("log") / "first.swf"
    path.write_text("".join(lines[:2400]))
    return path


@pytest.fixture(scope="module")
def log(small: Path) -> MoldableLog:
    return read_moldable_log(small)


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    path = tmp_path / "runs.csv"
    rows = [f"solver,{n},{runtime_s}" for n, runtime_s in LAW] + ["short,1,5", "short,2,4"]
    path.write_text("application,procs,runtime_s\n" + "\n".join(rows) + "\n")
    return path


def test_no_moldable_job_is_the_rigid_replay_to_the_bit(log: MoldableLog) -> None:
    curves = true_curves(None, TRUTH)
    world = curves.world(log, np.random.default_rng(0))
    candidates = candidates_of(log, world, 2)
    none = np.zeros(len(log.work), bool)
    _, done = replay_moldable(world.work, choices_of(world, candidates, none, candidates.growth))
    easy = replay(log.work, ReplayOptions())
    assert candidates.is_moldable().sum() > 100
    assert done.start_s.tolist() == easy.start_s.tolist() and done.by_end.tolist() == easy.by_end.tolist()


def test_the_laws_of_the_truth_file_give_the_growth(log: MoldableLog) -> None:
    curves = true_curves(None, TRUTH)
    world = curves.world(log, np.random.default_rng(0))
    job = np.flatnonzero(world.follows_curve & (log.work.procs > 1))
    own = [curves.applications[code] for code in world.curve[job]]
    amdahl = np.array([one["law"] == "amdahl" for one in own])
    serial = np.array([one["serial_fraction"] for one in own if one["law"] == "amdahl"])
    n = log.work.procs[job[amdahl]]
    wanted = (serial + (1 - serial) / (2 * n)) / (serial + (1 - serial) / n)
    assert world.growth(job, 2 * log.work.procs[job])[amdahl] == pytest.approx(wanted)


def test_groups_follow_their_series_and_keep_their_processor_seconds(log: MoldableLog, csv: Path) -> None:
    measured = true_curves(csv, None)
    assert len(measured.log_s) == 1 and len(measured.by_application) == 1
    world = measured.world(log, np.random.default_rng(0))
    on, old, new = world.follows_curve, log.work, world.work
    assert 0.5 < on.mean() <= 1 and np.array_equal(new.run_s[~on], old.run_s[~on])
    code = np.bincount(log.group[on]).argmax()
    rows = on & (log.group == code)
    assert (new.procs * new.run_s)[rows].sum() == pytest.approx((old.procs * old.run_s)[rows].sum(), rel=0.01)
    sizes = np.unique(new.procs[rows])
    medians = [np.median(new.run_s[rows & (new.procs == n)]) for n in sizes]
    first = np.flatnonzero(rows & (new.procs == sizes[0]))[:1].repeat(len(sizes))
    assert np.array(medians) / medians[0] == pytest.approx(world.growth(first, sizes), rel=0.02)
    assert np.all(new.request_s >= new.run_s)


def test_the_same_study_gives_the_same_table_and_knowing_the_truth_helps(log: MoldableLog) -> None:
    settings = StudySettings(shares=(0.0, 1.0), seeds=1, refits=1)
    first, second = (study(log, true_curves(None, TRUTH), settings) for _ in range(2))
    assert first == second
    rows = {(row["share"], row["chooser"]): row for row in first}
    assert set(rows) == {(0.0, "rigid"), (1.0, "rigid"), (1.0, "amdahl"), (1.0, "fitted"), (1.0, "true")}
    assert rows[1.0, "rigid"]["turnaround_mean_s"] == rows[0.0, "rigid"]["turnaround_mean_s"]
    assert rows[1.0, "true"]["turnaround_mean_s"] < rows[1.0, "rigid"]["turnaround_mean_s"]
    assert rows[1.0, "true"]["share_corrected"] == 0 < rows[1.0, "fitted"]["share_resized"]


def printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: object) -> str:
    monkeypatch.setattr("sys.argv", ["moldable_replay", *map(str, words)])
    main()
    return capsys.readouterr().out


def test_the_benchmark_prints_a_table_or_json(
    small: Path, csv: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = (small, "--series", csv, "--seeds", "1", "--share", "0,50")
    told = json.loads(printed(monkeypatch, capsys, *asked, "--json"))
    assert {row["chooser"] for row in told["summary"]} == {"rigid", "amdahl", "fitted", "true"}
    assert len(told["summary"]) == 5
    assert any("measured series" in sentence for sentence in told["assumptions"])
    table = printed(monkeypatch, capsys, *asked)
    assert table.count("\n| 50 | ") == 4 and "| 50 | true |" in table


def test_what_cannot_be_used_is_refused_in_a_sentence(
    small: Path, csv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    short, empty = tmp_path / "short.csv", tmp_path / "laws.json"
    short.write_text("procs,runtime_s\n1,10\n2,6\n")
    empty.write_text("[1, 2]")
    for source, said in (((short, None), "none with 4 sizes"), ((None, empty), "a file without laws")):
        with pytest.raises(InputError, match=said):
            true_curves(*source)
    for given, said in (
        (["--share", "20"], "one of the arguments --series --laws is required"),
        (["--series", csv, "--laws", TRUTH], "not allowed with"),
        (["--series", csv, "--share", "20,120"], "numbers from 0 to 100"),
    ):
        with pytest.raises(SystemExit) as refused:
            printed(monkeypatch, capsys, small, *given)
        assert refused.value.code == 2 and said in capsys.readouterr().err
