"""A log that changes between its digest and its reading is named in one sentence."""

import gzip
import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.errors import InputError
from pipeline.ingest.sources import check_unchanged, sha256_of_first
from pipeline.run import STEPS, Run, start_run
from pipeline.settings import RunSettings, SiteSettings
from pipeline.storage import file_stamp

SWF = "; MaxProcs: 8\n" + "".join(f"{n} {n * 9} 1 60 4 -1 -1 4 90 -1 1 1 1 1 1 1 -1 -1\n" for n in range(1, 40))


def run_over(log: Path) -> Run:
    log.write_text(SWF)
    return start_run(RunSettings(site=SiteSettings(name="here")), [log])


CHANGES: dict[str, Callable[[Path], object]] = {
    r"shrank from [\d,]+ to [\d,]+ bytes": lambda log: log.write_text(SWF[: len(SWF) // 2]),
    r"shrank from [\d,]+ to 0 bytes": lambda log: log.write_text(""),
    "got other content in its first": lambda log: log.write_text(SWF.replace(" 60 ", " 61 ")),
    "was removed": lambda log: log.unlink(),
}


@pytest.mark.parametrize("sentence", sorted(CHANGES))
def test_a_log_that_changes_before_it_is_read_ends_the_run(tmp_path: Path, sentence: str) -> None:
    log = tmp_path / "a.swf"
    run = run_over(log)
    CHANGES[sentence](log)
    with pytest.raises(InputError, match=rf"^a\.swf: found a file that {sentence}.* while it was read.*; run again"):
        STEPS[0].call(run)


def test_a_log_that_is_only_touched_or_replaced_by_a_copy_is_read(tmp_path: Path) -> None:
    log = tmp_path / "a.swf"
    run = run_over(log)
    (tmp_path / "copy").write_text(SWF)
    (tmp_path / "copy").replace(log)
    os.utime(log, (1, 1))
    jobs, *_ = STEPS[0].call(run)
    assert jobs.num_rows == 39
    check_unchanged(log, "a.swf", file_stamp(log), "not looked at")


def test_a_log_that_grows_all_the_time_is_read_as_it_was_for_its_digest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scheduler adds to its accounting file before, during and after the digest, and while it is read."""
    log = tmp_path / "a.swf"
    log.write_text(SWF)

    def growing(path: Path, n_bytes: int) -> str:
        grow(log)
        digest = sha256_of_first(path, n_bytes)
        grow(log)
        return digest

    monkeypatch.setattr("pipeline.run.sha256_of_first", growing)
    run = start_run(RunSettings(site=SiteSettings(name="here")), [log])
    assert run.log_digests == (hashlib.sha256(SWF.encode()).hexdigest(),)
    grow(log)
    jobs, _, report = STEPS[0].call(run)
    assert jobs.num_rows == 39
    assert report.facts["bytes"] == len(SWF)


def test_two_runs_with_one_id_over_a_growing_log_have_the_same_jobs(tmp_path: Path) -> None:
    """The run that was started first is computed last, when its log has grown."""
    log = tmp_path / "a.swf"
    log.write_text(SWF)
    first, second = (start_run(RunSettings(site=SiteSettings(name="here")), [log]) for _ in range(2))
    jobs, *_ = STEPS[0].call(first)
    grow(log)
    later, *_ = STEPS[0].call(second)
    assert first.run_id == second.run_id
    assert later.equals(jobs)


def test_a_packed_log_that_grows_while_it_is_read_ends_the_run(tmp_path: Path) -> None:
    """What is added to a packed log cannot be told from what was there: nothing of it is published."""
    log = tmp_path / "a.swf.gz"
    log.write_bytes(gzip.compress(SWF.encode()))
    run = start_run(RunSettings(site=SiteSettings(name="here")), [log])
    with log.open("ab") as more:
        more.write(gzip.compress(b"99 999 1 60 4 -1 -1 4 90 -1 1 1 1 1 1 1 -1 -1\n"))
    with pytest.raises(InputError, match=r"^a\.swf\.gz: found a file that grew from [\d,]+ to [\d,]+ bytes"):
        STEPS[0].call(run)


def grow(log: Path) -> None:
    n_lines = len(log.read_text().splitlines())
    with log.open("a") as more:
        more.write(f"{n_lines} {n_lines * 9} 1 60 4 -1 -1 4 90 -1 1 1 1 1 1 1 -1 -1\n")
