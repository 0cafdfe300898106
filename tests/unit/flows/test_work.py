"""The work folder: finished steps are found again, damaged ones are not, and nothing piles up."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from pipeline.publish.store import (
    RunInProgressError,
    find_step,
    holder_of,
    is_held,
    keep_step,
    keep_steps,
    locked,
    step_folders,
    work_folder,
)
from pipeline.report import Report, Tally
from pipeline.run import STEPS
from pipeline.tables import FITS

FIT = next(step for step in STEPS if step.name == "fit")
HOLD = """
import sys, time
from pathlib import Path
from pipeline.publish.store import work_folder
with work_folder(Path(sys.argv[1])) as work:
    (work / ".x.1.draft").mkdir()
    print("held", flush=True)
    time.sleep(60)
"""
REPORT = Report("fit", "group", Tally(2), Tally(1), {"no_usable_fit": Tally(1)}, {"a": 1}, ("note",))


def keep(folder: Path) -> None:
    keep_step(folder, lambda _: ({"fits": FITS.empty()}, REPORT), {"fits": FITS})


def test_a_kept_step_is_found_with_its_report(tmp_path: Path) -> None:
    assert find_step(tmp_path / "fit-k") is None
    keep(tmp_path / "fit-k")
    found = find_step(tmp_path / "fit-k")
    assert found is not None and found.report == REPORT and found.tables == {"fits": tmp_path / "fit-k/fits.parquet"}


@pytest.mark.parametrize("damage", ["truncate", "remove", "no report", "bad report"])
def test_a_damaged_step_is_done_again(tmp_path: Path, damage: str) -> None:
    folder = tmp_path / "fit-k"
    keep(folder)
    fits, report = folder / "fits.parquet", folder / "report.json"
    {
        "truncate": lambda: fits.write_bytes(fits.read_bytes()[:-1]),
        "remove": fits.unlink,
        "no report": report.unlink,
        "bad report": lambda: report.write_text("{}"),
    }[damage]()
    assert find_step(folder) is None
    keep(folder)
    assert find_step(folder) is not None


def test_a_failed_first_run_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), work_folder(tmp_path / "a/b/out") as work:
        (work / ".x.1.draft").mkdir()
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_a_failed_run_leaves_its_finished_steps_and_success_prunes(tmp_path: Path) -> None:
    def run(name: str, *, fails: bool = False) -> set[str]:
        with work_folder(tmp_path / "out") as work:
            keep(work / name)
            if fails:
                raise RuntimeError
            keep_steps(work, {name})
            return step_folders(work)

    assert run("fit-1") == {"fit-1"}
    with pytest.raises(RuntimeError):
        run("fit-f", fails=True)
    assert step_folders(tmp_path / "out/work") == {"fit-1", "fit-f"}
    (tmp_path / "out/work/notes").mkdir()
    assert run("fit-2") == {"fit-2"} and (tmp_path / "out/work/notes").exists()


def test_a_second_run_is_refused_with_the_holder_s_name_and_leaves_the_first_alone(tmp_path: Path) -> None:
    with work_folder(tmp_path / "out") as work:
        (work / ".fit-k.1.draft").mkdir()
        sentence = rf"out: found another run that publishes here \(process {os.getpid()} of .+ on .+, since 2"
        with pytest.raises(RunInProgressError, match=sentence) as refused, work_folder(tmp_path / "out"):
            pass
        assert refused.value.exit_code == 75
        assert is_held(work) and (work / ".fit-k.1.draft").exists()
    assert not (tmp_path / "out").exists()


def test_a_run_that_waits_begins_when_the_first_one_dies(tmp_path: Path) -> None:
    """The first run is killed with -9: the system releases its lock, and its drafts are removed."""
    first = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path / "out")], stdout=subprocess.PIPE)
    assert first.stdout is not None and first.stdout.readline() == b"held\n"
    work = tmp_path / "out/work"
    holder = holder_of(work)
    assert holder.pid == first.pid and is_held(work)
    killer = threading.Timer(0.5, first.kill)
    killer.start()
    with locked(tmp_path / "out/work"):
        assert first.wait(10) == -signal.SIGKILL
        assert not (work / ".x.1.draft").exists()
        mine = holder_of(work)
        assert mine.pid == os.getpid()
    first.stdout.close()


def test_what_a_dead_holder_wrote_does_not_count(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work/.lock").write_text('{"pid": 1, "host": "h", "user": "u", "since_s": 0}')
    assert not is_held(tmp_path / "work")
    with work_folder(tmp_path):
        mine = holder_of(tmp_path / "work")
        assert mine.pid == os.getpid()
