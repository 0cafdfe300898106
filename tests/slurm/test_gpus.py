"""Jobs on GPUs of a real Slurm: submit, account, ingest, run, ask, export, and the plug-in's comment."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from pipeline.publish import load_manifest
from tests.slurm.commands import ENDED, call, states, submit, wait_for
from tests.slurm.conftest import SHAPE, first_port, running

CARDS = {"a100": 4, "v100": 2}
"""GPUs of the last node, which has the partition gpu."""

TRAIN_S, N_EACH = {1: 8, 2: 4, 4: 2}, 6
"""Runtime of `train`, which halves, by GPUs; runs of each."""

ASKS: dict[tuple[str, ...], tuple[int, str | None]] = {
    ("--gpus=a100:1",): (1, "a100"),
    ("--gres=gpu:v100:2",): (2, "v100"),
    ("-N1", "--gpus-per-node=a100:2"): (2, "a100"),
    ("-n2", "--gpus-per-task=v100:1"): (2, "v100"),
    ("-n2",): (0, None),
}
"""GPUs that the accounting has of what was asked for, and their type."""

CONFIG = """
output_dir = "tables"
[site]
name = "gpus"
timezone = "UTC"
[source]
kind = "sacct"
since = "2020-01-01"
[group]
template = ["user", "application"]
[export]
mode = "dry_run"
"""


@dataclass(frozen=True)
class Site:
    """A Slurm with GPUs of two types, and the folder of the config and the tables."""

    environment: Mapping[str, str]
    folder: Path
    asked: Mapping[tuple[str, ...], str]
    """The ids of the jobs of ASKS."""

    def walltime(self, *arguments: str) -> str:
        command = [sys.executable, "-m", "flows.cli", *arguments]
        done = subprocess.run(
            command, check=False, env=self.environment, cwd=self.folder, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def answer(self, *arguments: str) -> Any:
        return json.loads(self.walltime(*arguments, "--from", "tables", "--json"))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder, port = tmp_path_factory.mktemp("gpus"), first_port() + 100
    with running({**SHAPE, "SLURM_GPUS": str(sum(CARDS.values()))}, port) as slurm:
        with_types(slurm)
        environment = {**slurm, "PREFECT_HOME": str(folder / "prefect"), "PYTHONPATH": str(Path.cwd()), "TZ": "UTC"}
        asked = {options: submit(slurm, "-pgpu", "-t5", "-Jask", *options) for options in ASKS}
        for _ in range(N_EACH):
            for n_gpus, seconds in TRAIN_S.items():
                submit(slurm, "-pgpu", "-t30", "-Jtrain_7.sh", f"--gpus=a100:{n_gpus}", script=f"sleep {seconds}")
        wait_for("the jobs", 300, lambda: not call(slurm, "squeue", "-h"))
        wait_for("the accounting", 60, lambda: set(states(slurm)) <= ENDED)
        (folder / "site.toml").write_text(CONFIG, "utf-8")
        found = Site(environment, folder, asked)
        found.walltime("run", "site.toml")
        yield found


def with_types(environment: Mapping[str, str]) -> None:
    """Give the GPUs of the last node types, and start what has to read them anew."""
    work = Path(environment["SLURM_WORK"])
    conf, node = work / "etc" / "slurm.conf", f"n0{SHAPE['SLURM_NODES']}"
    asked, typed = ",".join(f"gpu:{one}:{n}" for one, n in CARDS.items()), ",".join(f"gres/gpu:{one}" for one in CARDS)
    text = re.sub(r"Gres=gpu:\d+", f"Gres={asked}", conf.read_text("utf-8"))
    conf.write_text(text.replace("AccountingStorageTRES=gres/gpu", f"AccountingStorageTRES=gres/gpu,{typed}"), "utf-8")
    files, first = [], 0
    for one, n in CARDS.items():
        files.append(f"NodeName={node} Name=gpu Type={one} File={work}/run/dev/gpu[{first}-{first + n - 1}]")
        first += n
    (conf.parent / "gres.conf").write_text("\n".join(files) + "\n", "utf-8")
    for name, command in (("slurmctld", ["slurmctld", "-D"]), (node, ["slurmd", "-D", "-N", node])):
        restart(environment, name, command)
    wait_for("the typed GPUs", 60, lambda: asked in call(environment, "sinfo", "-h", "-pgpu", "-tidle", "-o%G"))


def restart(environment: Mapping[str, str], name: str, command: list[str]) -> None:
    """End a daemon and start it again, as the file of its process that down.sh reads says."""
    work = Path(environment["SLURM_WORK"])
    process = work / "run" / f"{name}.up"
    old = int(process.read_text("ascii").split()[0])
    os.kill(old, signal.SIGTERM)
    wait_for(f"the end of {name}", 30, lambda: not Path(f"/proc/{old}/exe").exists())
    with (work / "log" / f"{name}.out").open("ab") as log:
        new = subprocess.Popen(command, env=environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                               start_new_session=True)  # fmt: skip
    born = Path(f"/proc/{new.pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()[19]
    process.write_text(f"{new.pid} {born}\n", "ascii")


@pytest.fixture(scope="module")
def jobs(site: Site) -> dict[str, dict[str, Any]]:
    table = pq.read_table(load_manifest(site.folder / "tables").path("jobs"))
    return {row["job_id"]: row for row in table.to_pylist()}


def test_gpus_and_their_type_are_those_that_were_asked_for(site: Site, jobs: dict[str, dict[str, Any]]) -> None:
    found = {asked: (jobs[job_id]["gpus"], jobs[job_id]["gpu_type"]) for asked, job_id in site.asked.items()}
    assert found == {asked: (n or found[asked][0], kind) for asked, (n, kind) in ASKS.items()}
    assert not found["-n2",][0]


def test_runs_scale_over_gpus(site: Site) -> None:
    rows = pq.read_table(load_manifest(site.folder / "tables").path("observations")).to_pylist()
    train = {row["procs"]: row["n_jobs"] for row in rows if row["axis"] == "gpus" and row["procs"] in TRAIN_S}
    assert train == dict.fromkeys(TRAIN_S, N_EACH), rows


def test_a_query_tells_one_gpu_from_four(site: Site) -> None:
    asks = ("query", "--user", "alice", "--job-name", "train_9.sh", "--queue", "gpu", "--requested", "30m")
    one, four = (site.answer(*asks, "--procs", "1", "--gpus", str(n), "--gpu-type", "a100") for n in (1, 4))
    assert one["runtime_s_q50"] > 2 * four["runtime_s_q50"], (one, four)


def test_advice_is_in_gpus(site: Site) -> None:
    said = site.walltime("scaling", "advise", "--from", "tables", "--application", "train")
    assert "GPUs" in said and "processor-hours" not in said, said


def test_the_plug_in_comments_on_jobs_by_their_gpus(site: Site) -> None:
    site.walltime("export", "exported", "--for", "slurm", "--from", "tables", "--config", "site.toml")
    conf = Path(site.environment["SLURM_CONF"])
    for name in ("walltime.lookup", "job_submit.lua"):
        shutil.copy(site.folder / "exported" / name, conf.parent / name)
    conf.write_text(conf.read_text("utf-8") + "JobSubmitPlugins=lua\n", "utf-8")
    call(site.environment, "scontrol", "reconfigure")
    said = {n: comment(site, "-pgpu", "-t30", "-Jtrain_9.sh", f"--gpus=a100:{n}") for n in TRAIN_S}
    median_s = {n: float(words["median_s"]) for n, words in said.items()}
    for n, seconds in TRAIN_S.items():
        assert median_s[n] == pytest.approx(seconds, abs=1.5), said
        assert said[n]["jobs"] == str(N_EACH)
    # None of them ran on a v100, so that all of them tell of such a job.
    assert comment(site, "-pgpu", "-t30", "-Jtrain_9.sh", "--gpus=v100:1")["jobs"] == str(len(TRAIN_S) * N_EACH)


def comment(site: Site, *options: str) -> dict[str, str]:
    """The words of the comment that a held job is given."""
    job_id = submit(site.environment, "-H", *options)
    shown = call(site.environment, "scontrol", "show", "job", job_id)
    return dict(word.partition("=")[::2] for word in " ".join(re.findall("AdminComment=(.*)", shown)).split())
