"""Jobs with ngpus on a real OpenPBS: submit, account, run, ask, export, and what the hook sets."""

import json
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pipeline.publish import load_manifest
from tests.pbs.cluster import Cluster
from tests.pbs.conftest import CONFIG, installed
from tests.pbs.mix import look_up, planned_s, soft_s_of, walltime

TRAIN_S, N_EACH = {1: 12, 2: 6, 4: 3}, 6
"""Runtime of `train`, which halves, by GPUs; runs of each."""

ASKED_S = 900


@dataclass(frozen=True)
class Site:
    """An OpenPBS, and the folder of the config and the tables."""

    cluster: Cluster
    folder: Path

    def submit(self, n_gpus: int, runs_s: float, *options: str) -> str:
        select = f"1:ncpus=2:ngpus={n_gpus}:mem=4gb"
        return self.cluster.submit("alice", "train_7", select, ASKED_S, runs_s, *options)


@pytest.fixture(scope="module")
def site(gpu_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Site:
    found = Site(gpu_cluster, tmp_path_factory.mktemp("gpus"))
    ids = [found.submit(n_gpus, seconds) for _ in range(N_EACH) for n_gpus, seconds in TRAIN_S.items()]
    gpu_cluster.wait(ids, 240)
    config = CONFIG.format(accounting=gpu_cluster.accounting) + "[group]\ntemplate = ['user', 'application']\n"
    (found.folder / "site.toml").write_text(config, "utf-8")
    walltime(gpu_cluster, found.folder, "run", "site.toml")
    return found


def test_runs_scale_over_the_gpus_of_the_accounting(site: Site) -> None:
    manifest = load_manifest(site.folder / "tables")
    jobs = pq.read_table(manifest.path("jobs")).to_pylist()
    assert sorted(row["gpus"] for row in jobs) == sorted(list(TRAIN_S) * N_EACH)
    rows = pq.read_table(manifest.path("observations")).to_pylist()
    assert {(row["axis"], row["procs"], row["n_jobs"]) for row in rows} == {("gpus", n, N_EACH) for n in TRAIN_S}


def test_query_and_advice_are_in_gpus(site: Site) -> None:
    asks = (
        "query",
        "--from",
        "tables",
        "--user",
        "alice",
        "--job-name",
        "train_9",
        "--procs",
        "2",
        "--requested",
        "15m",
    )
    one, four = (json.loads(walltime(site.cluster, site.folder, *asks, "--gpus", str(n), "--json")) for n in (1, 4))
    assert one["runtime_s_q50"] > 2 * four["runtime_s_q50"], (one, four)
    said = walltime(site.cluster, site.folder, "scaling", "advise", "--from", "tables", "--application", "train")
    assert "GPUs" in said and "processor-hours" not in said, said


def test_the_hook_plans_by_a_job_s_gpus(site: Site) -> None:
    installed(site.cluster, site.folder)
    content = look_up(site.folder / "tables")
    (site.cluster.home / "server_priv" / "walltime.lookup").write_bytes(content)
    held = {n: site.submit(n, 1, "-h") for n in (*TRAIN_S, 8)}
    planned = {n: planned_s(content, "alice", "train", ASKED_S, 2, gpus=n) for n in held}
    assert {n: soft_s_of(site.cluster, job_id) for n, job_id in held.items()} == planned
    assert planned[1] > planned[4]
