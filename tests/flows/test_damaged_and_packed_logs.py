"""A run over a log of which much looks damaged, and over an archive of logs."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

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


@pytest.mark.parametrize("name", ["days.tar.gz", "days.tar", "days.zip"])
def test_a_run_reads_an_archive_as_its_members(walltime: Walltime, tmp_path: Path, name: str) -> None:
    packed, folder = tmp_path / name, tmp_path / "days"
    folder.mkdir()
    for day in range(3):
        (folder / f"2026030{day}").write_text("".join(ended(100 * day + i) for i in range(40)))
    form = {".gz": "gztar", ".tar": "tar", ".zip": "zip"}[packed.suffix]
    shutil.make_archive(str(tmp_path / "days"), form, folder, ".")
    done = walltime("run", config(tmp_path, packed), "--plain")
    assert done.code == 0, done.err
    jobs = min((tmp_path / "tables").rglob("jobs.parquet"))
    table = pq.read_table(jobs)
    assert table.num_rows == 120
    labels = {label.replace("./", "") for label in table["source_file"].to_pylist()}
    assert labels == {f"{name}:2026030{day}" for day in range(3)}
