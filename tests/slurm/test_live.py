"""Jobs with hostile names, submitted to a real Slurm and read back through the live source and the JSON."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.ingest import ingest
from pipeline.settings import IngestSettings, SiteSettings
from tests.slurm.commands import ENDED, call, states, submit, wait_for

NAMES = (
    "plain", "a|b", "new\nline", "7|8|9\n1|2|COMPLETED", "semi;colon", "it's", 'quo"te',
    "back\\slash", "tab\tname", "-lead",
    "--array=0-9", "percent%j", "übung_é", "a\x1fb", "\x1f", "comma,=", "NULL", " x ", "x" * 200, "{}[]",
    "$(reboot)", "123.batch", "1_2",
)  # fmt: skip
Row = dict[str, Any]


@pytest.fixture(scope="module")
def submitted(slurm: dict[str, str]) -> dict[str, str]:
    """Ids by what was submitted, all ended and in the accounting."""
    ids = {f"name {n}": submit(slurm, f"--job-name={name}", "-n1", "-t5") for n, name in enumerate(NAMES)}
    ids["timeout"] = submit(slurm, "--job-name=late", "-n2", "-t1", script="sleep 300")
    ids["requeue"] = submit(slurm, "--job-name=again", "--requeue", "-n1", "-t5", script="sleep 8")
    ids["cancel"] = submit(slurm, "--job-name=no more", "-n1", "-t5", script="sleep 300")
    ids["never"] = submit(slurm, "--job-name=waits", "-N3", "--exclusive", "-t5")
    ids["array"] = submit(slurm, "--job-name=arr|ay", "--array=0-3", "-n1", "-t5", script="sleep 2")
    ids["het"] = submit(slurm, "--job-name=het", "-n2", "-t5", ":", "-n1", "-t5", script="sleep 2", user="bob")
    ids["exit 3"] = submit(slurm, "--job-name=fails", "-n2", "-t5", script="exit 3", user="bob")
    ids["kill"] = submit(slurm, "--job-name=shot", "-n1", "-t5", script="kill -9 $$")
    ids["steps"] = submit(
        slurm, "--job-name=steps", "-N2", "-n6", "--mem-per-cpu=100", "-t7",
        script="srun -n6 sleep 1; srun -n1 sh -c 'exit 5'; sleep 2",
    )  # fmt: skip
    wait_for("a start", 60, lambda: "R" in call(slurm, "squeue", "-h", "-o%t", "-j", ids["requeue"]))
    call(slurm, "scontrol", "requeue", ids["requeue"])
    wait_for("a start", 60, lambda: "R" in call(slurm, "squeue", "-h", "-o%t", "-j", ids["cancel"]))
    # sacct tells of a job that never was eligible only when asked for it by id; this one just found no room.
    call(slurm, "scancel", ids["cancel"], ids["never"])
    # A requeued job is held back for two minutes, unless told otherwise.
    call(slurm, "scontrol", "update", f"JobId={ids['requeue']}", "StartTime=now")
    wait_for("the jobs", 240, lambda: not call(slurm, "squeue", "-h"))
    wait_for("the accounting", 60, lambda: set(states(slurm)) <= ENDED)
    return ids


def ingest_live(environment: Mapping[str, str], out: Path, *options: str) -> pa.Table:
    """The jobs as `walltime ingest --live` writes them, none of them unreadable."""
    command = [sys.executable, "-m", "flows.cli", "ingest", "--live", "--since", "2020-01-01", "--out", str(out)]
    done = subprocess.run(
        [*command, *options], check=False, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert not out.with_name("jobs.unreadable.parquet").exists(), done.stdout
    return pq.read_table(out)


@pytest.fixture(scope="module")
def written(slurm: dict[str, str], submitted: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("live") / "jobs.parquet"


@pytest.fixture(scope="module")
def live(slurm: dict[str, str], written: Path) -> pa.Table:
    return ingest_live(slurm, written)


@pytest.fixture(scope="module")
def jobs(live: pa.Table) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in live.to_pylist():
        found.setdefault(row["job_id"], []).append(row)
    return found


def one(jobs: dict[str, list[Row]], job_id: str) -> Row:
    (row,) = jobs[job_id]
    return row


def test_every_job_is_there_once(jobs: dict[str, list[Row]], submitted: dict[str, str]) -> None:
    plain = {job_id for what, job_id in submitted.items() if what not in ("array", "het")}
    parts = {f"{submitted['array']}_{n}" for n in range(4)} | {f"{submitted['het']}+{n}" for n in range(2)}
    assert set(jobs) == plain | parts
    assert {job_id for job_id, rows in jobs.items() if len(rows) > 1} == {submitted["requeue"]}


@pytest.mark.parametrize("n", range(len(NAMES)))
def test_a_hostile_name_is_read_as_it_was_given(jobs: dict[str, list[Row]], submitted: dict[str, str], n: int) -> None:
    row = one(jobs, submitted[f"name {n}"])
    assert row["job_name"] == stored(NAMES[n])
    assert (row["user"], row["state"], row["exit_code"], row["procs"]) == ("alice", "COMPLETED", 0, 1)
    assert (row["queue"], row["account"], row["requested_s"]) == ("batch", "physics", 300.0)
    assert 0 <= row["runtime_s"] <= 6


def stored(name: str) -> str:
    """A name as Slurm stores it: slurmctld makes a backtick of a double quote."""
    return name.replace('"', "`")


def test_a_timeout_keeps_limit_and_runtime(jobs: dict[str, list[Row]], submitted: dict[str, str]) -> None:
    row = one(jobs, submitted["timeout"])
    assert (row["state"], row["requested_s"], row["procs"]) == ("TIMEOUT", 60.0, 2)
    assert row["runtime_s"] >= 60


def test_a_cancelled_job_keeps_its_word_and_no_number_of_who_did_it(
    jobs: dict[str, list[Row]], submitted: dict[str, str]
) -> None:
    assert one(jobs, submitted["cancel"])["state"] == "CANCELLED"
    # Its start is not asked for: where the backfill scheduler had planned one, Slurm stores that.
    never = one(jobs, submitted["never"])
    assert (never["state"], never["runtime_s"]) == ("CANCELLED", 0.0)


def test_a_requeued_job_is_two_records(jobs: dict[str, list[Row]], submitted: dict[str, str]) -> None:
    rows = sorted(jobs[submitted["requeue"]], key=lambda row: row["restart"])
    assert [(row["restart"], row["state"]) for row in rows] == [(0, "REQUEUED"), (1, "COMPLETED")]
    assert rows[0]["start_s"] < rows[1]["start_s"]
    assert rows[1]["runtime_s"] >= 7


def test_array_tasks_and_parts_know_what_they_belong_to(jobs: dict[str, list[Row]], submitted: dict[str, str]) -> None:
    for n in range(4):
        row = one(jobs, f"{submitted['array']}_{n}")
        assert (row["array_id"], row["job_name"], row["state"]) == (submitted["array"], "arr|ay", "COMPLETED")
    parts = [one(jobs, f"{submitted['het']}+{n}") for n in range(2)]
    assert [(part["het_id"], part["user"], part["procs"]) for part in parts] == [
        (submitted["het"], "bob", 2),
        (submitted["het"], "bob", 1),
    ]


def test_exits_are_codes_or_128_and_the_signal(jobs: dict[str, list[Row]], submitted: dict[str, str]) -> None:
    fails, shot = one(jobs, submitted["exit 3"]), one(jobs, submitted["kill"])
    assert (fails["state"], fails["exit_code"]) == ("FAILED", 3)
    assert (shot["state"], shot["exit_code"]) == ("FAILED", 128 + 9)


def test_steps_are_folded_into_their_job(jobs: dict[str, list[Row]], submitted: dict[str, str]) -> None:
    row = one(jobs, submitted["steps"])
    assert (row["procs"], row["nodes"], row["requested_s"], row["state"]) == (6, 2, 420.0, "COMPLETED")
    assert (row["requested_mem_kib"], row["exit_code"], row["derived_exit_code"]) == (102_400.0, 0, 5)


def test_the_json_says_the_same(slurm: dict[str, str], live: pa.Table, tmp_path: Path) -> None:
    path = tmp_path / "sacct.json"
    with path.open("wb") as out:
        subprocess.run(["sacct", "--json", "-a", "-D", "-S2020-01-01"], env=slurm, stdout=out, check=True, timeout=60)
    found, unreadable, report = ingest([path], SiteSettings(), IngestSettings())
    assert (found.num_rows, unreadable.num_rows) == (live.num_rows, 0)
    # Slurm up to 22.05 leaves exit codes out of its JSON; where they are null, text alone tells them.
    lost = {"exit_code", "derived_exit_code"} if any("exit code" in note for note in report.notes) else set()
    for left, right in zip(found.to_pylist(), live.to_pylist(), strict=True):
        # Its JSON has no submit line, which alone tells whether memory was asked for per processor or per node.
        for name in set(left) - {"source_file", "source_line", "requested_memory"}:
            assert left[name] == right[name] or (name in lost and left[name] is None), (name, left, right)


def test_a_second_night_changes_nothing(slurm: dict[str, str], live: pa.Table, written: Path) -> None:
    assert ingest_live(slurm, written, "--update").equals(live)
