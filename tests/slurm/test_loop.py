"""The loop on a real Slurm of 16 nodes: history, nightly run on live sacct, export, and a new mix of jobs.

The history's jobs follow known laws. The mix is submitted twice, first with a plug-in that only comments, then with one
that sets limits while `walltime guard` runs: dave, who has opted out, fills 12 nodes, and next in the queue is his job
for all 16. Small jobs of alice and bob fit into the four idle nodes, but they ask for an hour or two, so that by their
requests the wide job would have to wait for them. With the least limit, twice the guard's margin, they end before it
can start. The first run and slurmctld are killed.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.export.scheduler_files import HEARTBEAT_FILE
from pipeline.publish import load_manifest
from tests.slurm.commands import ENDED, call, queue_and_log, states, submit, wait_for
from tests.slurm.conftest import LOOP_SHAPE, started

HISTORY = (
    ("alice", "relax_{}.sh", "-n1", 60, "sleep $((2 + SLURM_ARRAY_TASK_ID % 2))", 60),
    ("bob", "sweep-{}", "-n2", 120, "sleep 1", 60),
    ("carol", "post_{}", "-n1", 30, "sleep $((1 + SLURM_ARRAY_TASK_ID % 3))", 60),
)
"""User, name, size, time asked for (min), script and number of jobs."""

BLOCKED_S, WIDE_MIN, LEAST_MIN = 50, 45, 30
"""How long the blocking job runs, what both wide jobs ask for, and the least limit of the plug-in."""

SMALL = (("alice", "relax_77.sh", "-n1", 60, "sleep 3"), ("bob", "sweep-99", "-n2", 120, "sleep 1")) * 4
LIVE = "PENDING,RUNNING,COMPLETING"
"""States of jobs that have not ended."""
FIELDS = "JobID,User,State,Submit,Start,End,TimelimitRaw,Flags,AdminComment"
CONFIG = """
output_dir = "{out}"
[site]
name = "loop"
timezone = "UTC"
[source]
kind = "sacct"
since = "2020-01-01"
[export]
mode = "{mode}"
opt_out = {{ users = ["dave"] }}
"""


@dataclass(frozen=True)
class Mix:
    """One submission of the mix: ids by what was submitted, and the accounting of each job."""

    wide: list[str]
    small: list[str]
    late: list[str]
    """Small jobs that were submitted after slurmctld was started again."""
    rows: Mapping[str, Mapping[str, str]]

    def waits_s(self, ids: list[str]) -> list[float]:
        """Seconds from submit to start."""
        return [instant_s(self.rows[one]["Start"]) - instant_s(self.rows[one]["Submit"]) for one in ids]


@dataclass(frozen=True)
class Loop:
    """What the loop left: the folder, and the two mixes."""

    environment: Mapping[str, str]
    folder: Path
    n_history: int
    killed_run_left: str
    before: Mix
    after: Mix


def instant_s(text: str) -> float:
    return time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%S"))


def walltime(loop_slurm: Mapping[str, str], *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "flows.cli", *map(str, arguments)]
    return subprocess.Popen(command, env=loop_slurm, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def done(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=600)
    assert process.returncode == 0, err
    return out


def make_history(environment: Mapping[str, str]) -> int:
    for user, name, size, minutes, script, n_jobs in HISTORY:
        # Each array is one name: applications are found although no two names are equal.
        for part in range(3):
            array = f"--array=0-{n_jobs // 3 - 1}"
            submit(
                environment, f"--job-name={name.format(part)}", size, f"-t{minutes}", array, script=script, user=user
            )
    wait_for("the history", 240, lambda: not call(environment, "squeue", "-h"))
    wait_for("the accounting", 60, lambda: set(states(environment)) <= ENDED)
    return len(states(environment))


def killed_in_mid_run(environment: Mapping[str, str], config: Path, out: Path) -> str:
    """Kill a run once it has read sacct and writes its first tables; what it left published."""
    process = subprocess.Popen(
        [sys.executable, "-m", "flows.cli", "run", str(config)],
        env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    wait_for("the run's first reading", 120, lambda: list((out / "source").glob("jobs-*.parquet")))
    wait_for("a step of the run", 120, lambda: process.poll() is not None or list(out.rglob("*jobs_read*")))
    assert process.poll() is None, "the run was over before it was killed"
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return ",".join(sorted(path.name for path in out.iterdir() if path.name == "manifest.json"))


def configured(environment: Mapping[str, str], folder: Path, mode: str) -> Path:
    path = folder / f"{mode}.toml"
    path.write_text(CONFIG.format(out=folder / "out", mode=mode))
    return path


def install(environment: Mapping[str, str], folder: Path, config: Path) -> None:
    """Export and install as INSTALL.txt says."""
    done(
        walltime(
            environment, "export", "--for", "slurm", folder / "slurm", "--from", folder / "out", "--config", config
        )
    )
    etc = Path(environment["SLURM_CONF"]).parent
    shutil.copy(folder / "slurm" / "walltime.lookup", etc / ".walltime.lookup.new")
    (etc / ".walltime.lookup.new").rename(etc / "walltime.lookup")
    shutil.copy(folder / "slurm" / "job_submit.lua", etc / "job_submit.lua")
    conf = Path(environment["SLURM_CONF"])
    if "JobSubmitPlugins" not in conf.read_text():
        conf.write_text(conf.read_text() + "JobSubmitPlugins=lua\n")
    call(environment, "scontrol", "reconfigure")
    time.sleep(2)


def restarted(environment: Mapping[str, str]) -> None:
    """Kill slurmctld, and start it again."""
    work = Path(environment["SLURM_WORK"])
    os.kill(int((work / "run" / "slurmctld.up").read_text().split()[0]), signal.SIGKILL)
    time.sleep(1)
    options = dict(line.partition("=")[::2] for line in (work / "etc" / "options").read_text().splitlines())
    lua = {"SLURM_LUA": str(work / "etc" / "job_submit.lua")}
    for _ in range(3):
        # Where the configuration differs, the script asks the killed slurmctld to read it; a second call starts it.
        complaint = started(work, {**LOOP_SHAPE, **lua}, int(options["SLURM_PORT"]))
        if not complaint:
            return
    raise AssertionError(complaint)


def run_mix(environment: Mapping[str, str], *, kill_slurmctld: bool) -> Mix:
    wide = [
        submit(
            environment,
            "--job-name=block",
            "-N12",
            "--exclusive",
            f"-t{WIDE_MIN}",
            script=f"sleep {BLOCKED_S}",
            user="dave",
        ),
        submit(environment, "--job-name=wide", "-N16", "--exclusive", f"-t{WIDE_MIN}", script="sleep 4", user="dave"),
    ]
    small = submit_small(environment)
    late = []
    if kill_slurmctld:
        # A job that ends between the last saving of the queue and the kill is taken for running for minutes afterwards:
        # the end was reported to the killed slurmctld. So only jobs that cannot end then are left: both of dave.
        wait_for(
            "the small jobs", 120, lambda: not call(environment, "squeue", "-h", f"-j{','.join(small)}", "-t", LIVE)
        )
        wait_until_saved(environment, wide[1])
        restarted(environment)
        late = submit_small(environment)
    wait_for("the mix", 180, lambda: not call(environment, "squeue", "-h"), lambda: queue_and_log(environment))
    wait_for("the accounting", 60, lambda: set(states(environment)) <= ENDED)
    return Mix(wide, small, late, accounting(environment, [*wide, *small, *late]))


def submit_small(environment: Mapping[str, str]) -> list[str]:
    return [
        submit(environment, f"--job-name={name}", size, f"-t{minutes}", script=script, user=user)
        for user, name, size, minutes, script in SMALL
    ]


def wait_until_saved(environment: Mapping[str, str], job_id: str) -> None:
    """Slurm itself forgets jobs that it had no time to save, which it does some seconds after each change.

    The change is made here, of a job that waits: the last one of the mix may be saved already.
    """
    state, changed_s = Path(environment["SLURM_WORK"]) / "state" / "job_state", time.time()
    call(environment, "scontrol", "update", f"JobId={job_id}", "Comment=saved")
    wait_for("saving the queue", 60, lambda: state.exists() and state.stat().st_mtime > changed_s)


def accounting(environment: Mapping[str, str], ids: list[str]) -> dict[str, dict[str, str]]:
    said = call(environment, "sacct", "-X", "-n", "-P", "-D", f"-j{','.join(ids)}", f"--format={FIELDS}")
    rows = [dict(zip(FIELDS.split(","), line.split("|"), strict=True)) for line in said.splitlines()]
    assert sorted(row["JobID"] for row in rows) == sorted(ids), "a job is lost, or twice in the accounting"
    return {row["JobID"]: row for row in rows}


@pytest.fixture(scope="module")
def loop(loop_slurm: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Loop:
    folder = tmp_path_factory.mktemp("loop")
    environment = {**loop_slurm, "PREFECT_HOME": str(folder / "prefect"), "TZ": "UTC"}
    n_history = make_history(environment)
    config = configured(environment, folder, "limit")
    left = killed_in_mid_run(environment, config, folder / "out")
    done(walltime(environment, "run", config))
    install(environment, folder, configured(environment, folder, "dry_run"))
    before = run_mix(environment, kill_slurmctld=False)
    install(environment, folder, config)
    with guarded(environment, config):
        after = run_mix(environment, kill_slurmctld=True)
    done(walltime(environment, "run", config))
    return Loop(environment, folder, n_history, left, before, after)


@contextmanager
def guarded(environment: Mapping[str, str], config: Path) -> Iterator[None]:
    """While `walltime guard` runs, whose heartbeat is there; it ends at SIGTERM with exit code 0."""
    heartbeat = Path(environment["SLURM_CONF"]).with_name(HEARTBEAT_FILE)
    process = walltime(environment, "guard", config)
    try:
        wait_for("the guard", 60, lambda: heartbeat.exists() or process.poll() is not None)
        assert process.poll() is None, process.communicate()
        yield
        process.terminate()
        out, err = process.communicate(timeout=60)
        assert (process.returncode, heartbeat.exists()) == (0, False), (out, err)
    finally:
        process.kill()


def jobs_of(loop: Loop) -> pa.Table:
    return pq.read_table(load_manifest(loop.folder / "out").path("jobs"))


def test_small_jobs_start_earlier_than_with_their_requests(loop: Loop) -> None:
    before, after = (sorted(mix.waits_s(mix.small)) for mix in (loop.before, loop.after))
    sys.stdout.write(f"\nwaits of small jobs, s: by requests {before}, by estimates {after}\n")
    # By requests none may delay the wide job, so all wait for the blocking one to end.
    assert before[0] >= BLOCKED_S - 10
    assert after[len(after) // 2] <= before[0] / 2


def test_they_were_backfilled(loop: Loop) -> None:
    assert all("SchedBackfill" in loop.after.rows[one]["Flags"] for one in loop.after.small)


def test_the_wide_job_does_not_wait_longer(loop: Loop) -> None:
    assert loop.after.waits_s(loop.after.wide)[1] <= loop.before.waits_s(loop.before.wide)[1] + 15


def test_no_job_was_killed_by_an_estimate_or_lost(loop: Loop) -> None:
    for mix in (loop.before, loop.after):
        assert {row["State"] for row in mix.rows.values()} == {"COMPLETED"}


def test_a_dry_run_comments_and_changes_nothing(loop: Loop) -> None:
    rows = [loop.before.rows[one] for one in loop.before.small]
    assert {(row["User"], row["TimelimitRaw"]) for row in rows} == {("alice", "60"), ("bob", "120")}
    assert all("walltime mode=dry_run" in row["AdminComment"] for row in rows)


def test_limits_are_lowered_except_for_who_has_opted_out(loop: Loop) -> None:
    lowered = [*loop.after.small, *loop.after.late]
    assert len(lowered) == 2 * len(SMALL)
    assert {loop.after.rows[one]["TimelimitRaw"] for one in lowered} == {str(LEAST_MIN)}
    for mix in (loop.before, loop.after):
        assert {(mix.rows[one]["TimelimitRaw"], mix.rows[one]["AdminComment"]) for one in mix.wide} == {
            (str(WIDE_MIN), "")
        }


def test_a_killed_run_published_nothing_and_the_next_one_lost_nothing(loop: Loop) -> None:
    assert loop.killed_run_left == ""
    jobs = jobs_of(loop)
    assert jobs.num_rows == loop.n_history + 3 * len(SMALL) + 4
    assert len(set(jobs.column("job_id").to_pylist())) == jobs.num_rows


def test_the_next_run_learns_what_the_users_asked_for(loop: Loop) -> None:
    asked = {row["job_id"]: row["requested_s"] for row in jobs_of(loop).to_pylist()}
    for one, (_, _, _, minutes, _) in zip(loop.after.small, SMALL, strict=True):
        assert asked[one] == 60.0 * minutes
