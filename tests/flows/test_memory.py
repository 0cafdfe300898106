"""`walltime query` and `walltime limits --memory` say what memory to ask for, where the log knows memory."""

import csv
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from pipeline.storage import write_table
from pipeline.tables import JOBS
from tests.flows.support import SAMPLES, Outcome
from tests.rows import jobs_of

Walltime = Callable[..., Outcome]
GIB = 1024.0**2
HOSTILE = '=HYPERLINK("x")\x1b[2J\n../../a'


@pytest.fixture
def jobs(tmp_path: Path) -> Path:
    """A table of 400 jobs of two users, one of whom has a hostile name; they use 1 of the 4 GiB per processor."""
    used_kib = GIB * np.exp(0.01 * np.random.default_rng(1).standard_normal(400))
    rows = [
        {
            "user": HOSTILE if place % 2 else "ada", "account": "lab", "application": "solver",
            "submit_s": 600 * place, "start_s": 600 * place, "end_s": 600 * place + 350, "runtime_s": 350.0,
            "requested_s": 3600.0, "procs": 8, "requested_mem_kib": 4 * GIB, "used_mem_kib": float(used_kib[place]),
        }
        for place in range(400)
    ]  # fmt: skip
    return write_table(tmp_path / "jobs.parquet", jobs_of(rows), JOBS)


def test_json_has_figures_and_a_row_per_user(jobs: Path, walltime: Walltime) -> None:
    shown = walltime("limits", jobs, "--memory", "--json")
    assert shown.code == 0, shown.err
    found = json.loads(shown.out)
    assert found["figures"]["n_jobs"] == 134 and found["figures"]["share_under"] <= 0.03
    assert found["asked"]["over_allocation"] == pytest.approx(3.0, rel=0.02)
    row = next(row for row in found["rows"] if row["name"] == "ada")
    assert row["requested_gib"] == 32.0 and row["used_gib"] == pytest.approx(8.0, rel=0.02)
    kind = row["kinds"][0]
    assert GIB < kind["recommended_mem_kib"] < 1.3 * GIB and kind["recommended_mem_kib"] % 1024 == 0


def test_letters_are_written_and_escaped(jobs: Path, tmp_path: Path, walltime: Walltime) -> None:
    out = tmp_path / "advice"
    shown = walltime("limits", jobs, "--memory", "--out", out)
    assert shown.code == 0 and "\x1b[2J" not in shown.out
    listed = list(csv.DictReader((out / "memory.csv").open()))
    assert {row["requested_mem_kib"] for row in listed} == {str(int(4 * GIB))}
    assert any(row["name"].startswith("'=") for row in listed)
    text = "".join(path.read_text() for path in sorted(out.rglob("*.txt")))
    assert len(list((out / "mail").iterdir())) == 2 and "\x1b" not in text
    assert "Hello ada," in text and "asked for 32 GiB a job and used 8 GiB" in text


def test_letters_tell_kinds_apart_by_their_gpus(jobs: Path, tmp_path: Path, walltime: Walltime) -> None:
    rows = [row | {"gpus": 4} if row["user"] == "ada" else row for row in pq.read_table(jobs).to_pylist()]
    out = tmp_path / "advice"
    shown = walltime("limits", write_table(tmp_path / "on_gpus.parquet", jobs_of(rows), JOBS), "--memory", "--out", out)
    assert shown.code == 0, shown.err
    listed = list(csv.DictReader((out / "memory.csv").open()))
    assert {row["gpus"] for row in listed if row["name"] == "ada"} == {"4"}
    (text,) = (out / "mail").glob("*-ada*")
    assert "8, 4 GPUs" in text.read_text()


def test_a_log_without_memory_is_refused_with_what_to_record(walltime: Walltime) -> None:
    shown = walltime("limits", SAMPLES / "inputs.sacct.gz", "--memory")
    assert shown.code != 0 and "none with the memory it used" in shown.err and "NTasks" in shown.err


def run_of(log: Path, folder: Path, walltime: Walltime) -> Path:
    config = folder / "site.toml"
    config.write_text(f'logs = ["{log}"]\noutput_dir = "{folder}/tables"\n[site]\nname = "s"\nprocs_per_node = 8\n')
    ran = walltime("run", config)
    assert ran.code == 0, ran.err
    return folder / "tables"


def test_a_query_says_what_memory_such_jobs_stay_under(tmp_path: Path, walltime: Walltime) -> None:
    published = run_of(SAMPLES / "traps.swf", tmp_path, walltime)
    asked = ("query", "--from", published, "--user", "1", "--application", "1", "--procs", "16", "--memory", "16G")
    shown = walltime(*asked)
    assert shown.code == 0, shown.err
    assert "Memory: ask for " in shown.out and "97% of all jobs stay within the memory recommended" in shown.out
    assert "the request is 8 GiB per node, 16 GiB in all (1 GiB per processor)" in shown.out
    found = json.loads(walltime(*asked, "--json").out)
    assert found["used_mem_kib_q50"] <= found["recommended_mem_kib"] <= 2 * GIB
    assert found["memory_nodes"] == 2 and found["memory_promise"] == 0.97
    batch = tmp_path / "jobs.csv"
    batch.write_text("user,application,procs,memory\n1,1,16,16G\n1,1,8,8G\n")
    out = tmp_path / "answers.csv"
    assert walltime("query", "--from", published, "--batch", batch, "--out", out).code == 0
    first = next(csv.DictReader(out.open()))
    assert float(first["recommended_mem_kib"]) == pytest.approx(found["recommended_mem_kib"])


def test_a_query_of_a_log_without_memory_says_nothing_of_it(tmp_path: Path, walltime: Walltime) -> None:
    published = run_of(SAMPLES / "inputs.sacct.gz", tmp_path, walltime)
    found = json.loads(walltime("query", "--from", published, "--user", "bob", "--json").out)
    assert not [name for name in found if "mem_kib" in name or name.startswith("memory")]
