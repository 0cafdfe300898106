"""Scratch folders go with their owner, whatever ends it."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from flows.services.files.table_files import scratch_folder
from pipeline.errors import InputError

ROOT = Path(__file__).parents[3]
OWNER = """
import signal, sys, time
from pathlib import Path
# A test run under nohup hands down an ignored SIGHUP.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
from flows.services.files.os_errors import unwinding_on_signals
from flows.services.files.table_files import scratch_folder
with unwinding_on_signals(), scratch_folder(Path(sys.argv[1])) as folder:
    (folder / "0.arrow").write_bytes(b"rows")
    print("ready", flush=True)
    time.sleep(60)
"""


def owner(out: Path) -> "subprocess.Popen[str]":
    """Another process that writes this file, with a scratch folder and a draft in it."""
    process = subprocess.Popen([sys.executable, "-c", OWNER, str(out)], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def test_the_folder_is_empty_at_first_and_gone_in_the_end(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="stop"), scratch_folder(tmp_path / "jobs.parquet") as folder:
        assert not list(folder.iterdir())
        (folder / "0.arrow").write_bytes(b"rows")
        raise ValueError("stop")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_removes_the_folder(tmp_path: Path, number: signal.Signals) -> None:
    process = owner(tmp_path / "jobs.parquet")
    process.send_signal(number)
    assert process.wait(20) == 128 + number
    assert not list(tmp_path.iterdir())


def test_the_next_writer_of_a_file_removes_what_a_killed_one_left_and_leaves_that_of_another_file(
    tmp_path: Path,
) -> None:
    killed, living = owner(tmp_path / "a.parquet"), owner(tmp_path / "b.parquet")
    try:
        killed.kill()
        killed.wait(20)
        assert len(list(tmp_path.iterdir())) == 2
        with scratch_folder(tmp_path / "a.parquet") as folder:
            assert not list(folder.iterdir())
        (left,) = tmp_path.iterdir()
        assert (left / "files" / "0.arrow").exists()
    finally:
        living.terminate()
        living.wait(20)
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="no file system here that takes no file")
def test_where_no_file_can_be_made_one_sentence_says_so() -> None:
    found = "found a folder that cannot be created"
    with pytest.raises(InputError, match=found), scratch_folder(Path("/proc/jobs.parquet")):
        pass
