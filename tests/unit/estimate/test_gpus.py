"""Jobs with GPUs are of other kinds than jobs without, or on GPUs of another type, in every answer of the estimator."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

import walltime as wt
from pipeline.errors import InputError
from pipeline.estimate.estimates import make_estimates
from pipeline.estimate.questions import questions_of
from pipeline.estimate.stage import learn_state
from pipeline.settings import SiteSettings
from tests.rows import jobs_of
from tools.simulation.gpu_runs import GPU_APPLICATIONS, gpu_runs, gpu_sacct

TYPED, OTHER_TYPE, WITHOUT, _ = GPU_APPLICATIONS
NOISE = 0.12


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    path = tmp_path_factory.mktemp("gpus") / "jobs.sacct"
    path.write_text(gpu_sacct(gpu_runs(400, seed=7)), encoding="utf-8")
    return wt.clean(wt.read(path, site="here"))


def medians_s(log: pd.DataFrame, *jobs: dict[str, Any]) -> list[float]:
    asked = pd.DataFrame([{"user": "ada", "application": "train", "requested_s": 172_800.0} | job for job in jobs])
    return wt.estimate(log, asked, {"name": "here", "procs_per_node": 16})["runtime_s_q50"].tolist()


def test_each_variant_of_a_program_has_its_own_runtimes(log: pd.DataFrame) -> None:
    found = medians_s(
        log, {"gpus": 4, "gpu_type": "a100", "procs": 32}, {"gpus": 4, "gpu_type": "v100", "procs": 32},
        {"procs": 32}, {"gpus": 1, "gpu_type": "a100", "procs": 8},
    )  # fmt: skip
    planted = [TYPED.law.runtime_s(4), OTHER_TYPE.law.runtime_s(4), WITHOUT.law.runtime_s(32), TYPED.law.runtime_s(1)]
    assert np.log(found) == pytest.approx(np.log(planted), abs=NOISE)


def test_what_a_job_does_not_tell_is_what_such_jobs_have(log: pd.DataFrame) -> None:
    """GPUs without processors or a type, and nodes without processors."""
    newest = log.loc[(log["user"] == "ada") & log["gpu_type"].notna(), "gpu_type"].iloc[-1]
    usual, told, on_nodes, on_procs = medians_s(
        log, {"gpus": 8}, {"gpus": 8, "procs": 64, "gpu_type": newest}, {"nodes": 2}, {"procs": 32}
    )
    assert (usual, on_nodes) == (told, on_procs)
    with pytest.raises(InputError, match="nodes: found a job with nodes and no processors"):
        questions_of([{"nodes": 2}], np.zeros(1), "UTC")


def test_types_of_gpus_share_no_row_of_the_table() -> None:
    """Jobs on as many processors and GPUs of two types: the rows of each answer its own runtime."""
    runs = gpu_runs(500, seed=8)
    for kinds in ({"a100", "v100"}, {"a100"}):
        jobs = jobs_of([
            {
                "user": run.of.user, "application": run.of.name, "queue": "q", "gpus": run.gpus, "procs": run.procs,
                "gpu_type": run.of.gpu_type, "submit_s": run.submit_s, "start_s": run.submit_s,
                "end_s": run.submit_s + run.runtime_s, "runtime_s": float(run.runtime_s), "requested_s": 172_800.0,
            }
            for run in runs if run.of.gpu_type in kinds | {None}
        ])  # fmt: skip
        state, _ = learn_state(jobs, SiteSettings(name="here"))
        rows = make_estimates(state, jobs, "r")[0].to_pylist()
        assert rows[0]["template"].split("+")[4:] == ["procs", "gpus", "gpu_type"]
        own = {"chain_rank": 1, "who": "ada", "what": TYPED.name, "procs": 32, "gpus": 4}
        found = sorted((row for row in rows if own.items() <= row.items()), key=lambda row: row["runtime_s_q50"])
        assert [row["gpu_type"] for row in found] == sorted(kinds)
        for row, of in zip(found, (TYPED, OTHER_TYPE), strict=False):
            assert np.log(row["runtime_s_q50"]) == pytest.approx(np.log(of.law.runtime_s(4)), abs=NOISE)
