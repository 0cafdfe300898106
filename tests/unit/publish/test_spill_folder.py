"""Spill folders go with their owner, whatever ends it."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from flows.services.files.spill_folders import SPILL_PREFIX, spill_folder
from pipeline.errors import InputError

ROOT = Path(__file__).parents[3]
OWNER = """
import signal, sys, time
from pathlib import Path
# A test run under nohup hands down an ignored SIGHUP.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
from flows.services.files.process_guards import unwinding_on_signals
from flows.services.files.spill_folders import spill_folder
with unwinding_on_signals(), spill_folder(Path(sys.argv[1])) as folder:
    (folder / "0.arrow").write_bytes(b"rows")
    print("ready", flush=True)
    time.sleep(60)
"""


def owner(parent: Path) -> "subprocess.Popen[str]":
    """Another process that has a spill folder with a file in it."""
    process = subprocess.Popen([sys.executable, "-c", OWNER, str(parent)], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def left(parent: Path) -> list[Path]:
    return list(parent.glob(f"{SPILL_PREFIX}*"))


def test_the_folder_is_empty_at_first_and_gone_in_the_end(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="stop"), spill_folder(tmp_path) as folder:
        assert not list(folder.iterdir())
        (folder / "0.arrow").write_bytes(b"rows")
        raise ValueError("stop")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_removes_the_folder(tmp_path: Path, number: signal.Signals) -> None:
    process = owner(tmp_path)
    process.send_signal(number)
    assert process.wait(20) == 128 + number
    assert not left(tmp_path)


def test_the_next_owner_sweeps_the_folder_of_a_killed_one_and_leaves_a_living_ones(tmp_path: Path) -> None:
    killed, living = owner(tmp_path), owner(tmp_path)
    try:
        killed.kill()
        killed.wait(20)
        assert len(left(tmp_path)) == 2
        with spill_folder(tmp_path):
            assert len(left(tmp_path)) == 2
        (kept,) = left(tmp_path)
        assert (kept / "files" / "0.arrow").exists()
    finally:
        living.terminate()
        living.wait(20)
    assert not left(tmp_path)


def test_a_folder_without_a_lock_as_older_releases_left_it_is_swept(tmp_path: Path) -> None:
    (tmp_path / f"{SPILL_PREFIX}old").mkdir()
    (tmp_path / f"{SPILL_PREFIX}old" / "jobs").mkdir()
    with spill_folder(tmp_path) as folder:
        assert left(tmp_path) == [folder.parent]


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="no file system here that takes no file")
def test_where_no_file_can_be_made_one_sentence_says_so() -> None:
    found = "/proc: found a folder in which no file can be made"
    with pytest.raises(InputError, match=found), spill_folder(Path("/proc")):
        pass
