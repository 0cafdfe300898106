"""A run over a log of which much looks damaged, and over an archive of logs."""

import tarfile
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq

from tests.flows.support import Outcome
from tests.unit.ingest.test_rare_damage import ended

Walltime = Callable[..., Outcome]


def config(folder: Path, log: Path, more: str = "") -> Path:
    path = folder / "site.toml"
    path.write_text(f'logs = ["{log}"]\noutput_dir = "{folder}/tables"\n{more}\n[site]\nname = "s"\n')
    return path


def damaged(folder: Path, n_damaged: int, n: int = 1500) -> Path:
    """A day of TORQUE of which some records lost their ends."""
    log = folder / "20260302"
    log.write_text("".join(ended(i) if i >= n_damaged else ended(i)[:-40] + "\n" for i in range(n)))
    return log


def test_a_run_over_a_log_of_which_much_looks_damaged_publishes_nothing(walltime: Walltime, tmp_path: Path) -> None:
    log = damaged(tmp_path, 30)
    done = walltime("run", config(tmp_path, log), "--plain")
    assert done.code == 4
    assert "30" in done.err and "max_damaged" in done.err
    assert not (tmp_path / "tables" / "jobs.parquet").exists()
    told = walltime("run", config(tmp_path, log, "[ingest]\nmax_damaged = 0.05"), "--plain")
    assert told.code == 0, told.err


def test_a_run_says_what_looks_damaged_above_a_thousandth(walltime: Walltime, tmp_path: Path) -> None:
    done = walltime("run", config(tmp_path, damaged(tmp_path, 5)), "--plain")
    assert done.code == 0, done.err
    assert "5 of 1,500" in done.err + done.out


def test_a_run_reads_an_archive_as_its_members(walltime: Walltime, tmp_path: Path) -> None:
    packed = tmp_path / "days.tar.gz"
    with tarfile.open(packed, "w:gz") as archive:
        for day in range(3):
            one = tmp_path / f"2026030{day}"
            one.write_text("".join(ended(100 * day + i) for i in range(40)))
            archive.add(one, one.name)
    done = walltime("run", config(tmp_path, packed), "--plain")
    assert done.code == 0, done.err
    jobs = min((tmp_path / "tables").rglob("jobs.parquet"))
    table = pq.read_table(jobs)
    assert table.num_rows == 120
    assert set(table["source_file"].to_pylist()) == {f"days.tar.gz:2026030{day}" for day in range(3)}
