"""Public tables of jobs beside the checkout, whole: as many jobs as they have, and the values that pandas reads."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from pipeline.ingest import ingest
from pipeline.report import Report
from pipeline.settings import IngestSettings, SiteSettings

DATA = Path(__file__).parents[4] / "shared" / "data"
pytestmark = [
    pytest.mark.shared,
    pytest.mark.skipif(not DATA.is_dir(), reason="REAL TABLES NOT READ: no folder shared/data beside the checkout"),
]
EAGLE, PHILLY = "sacct/eagle-sample.csv", "tables/philly-2017.csv.gz"
KESTREL, CIRRUS = "tables/kestrel-2024-ground_truth.parquet", "tables/cirrus-2024-09.csv.gz"


@cache
def read(name: str) -> tuple[pd.DataFrame, pa.Table, Report]:
    jobs, unreadable, report = ingest([DATA / name], SiteSettings(name="here"), IngestSettings())
    frame = jobs.to_pandas().sort_values("source_line").reset_index(drop=True)
    return frame, unreadable, report.check()


def epoch_s(column: pd.Series) -> np.ndarray[Any, Any]:
    return pd.to_datetime(column).astype("datetime64[s]").astype("int64").to_numpy()


@pytest.mark.parametrize(
    ("name", "n_rows", "n_twice"), [(EAGLE, 1000, 41), (PHILLY, 82_247, 0), (KESTREL, 161_266, 0), (CIRRUS, 60_000, 0)]
)
def test_every_row_is_a_job_or_is_said_to_be_one_twice(name: str, n_rows: int, n_twice: int) -> None:
    jobs, unreadable, report = read(name)
    assert (len(jobs), unreadable.num_rows) == (n_rows - n_twice, 0)
    assert report.facts["format"] == "table" and report.set_aside["superseded"].rows == n_twice


def test_eagle_is_what_pandas_reads() -> None:
    jobs, _, _ = read(EAGLE)
    plain = pd.read_csv(DATA / EAGLE).iloc[jobs["source_line"] - 2].reset_index(drop=True)
    assert jobs["job_id"].tolist() == plain["job_id"].astype(str).tolist()
    for own, name in (("submit_s", "submit_time"), ("start_s", "start_time"), ("end_s", "end_time")):
        known = plain[name].notna().to_numpy()
        assert np.array_equal(jobs[own].notna(), known)
        assert np.array_equal(jobs[own][known].astype("int64"), epoch_s(plain[name][known]))
    pairs = (("runtime_s", "run_time"), ("requested_s", "wallclock_req"), ("requested_procs", "processors_req"))
    for own, name in (*pairs, ("requested_nodes", "nodes_req"), ("gpus", "gpus_req")):
        assert np.array_equal(jobs[own].astype(float), plain[name].astype(float), equal_nan=True), own
    for own, name in (("user", "user"), ("account", "account"), ("queue", "partition"), ("application", "name")):
        assert jobs[own].astype(str).tolist() == plain[name].astype(str).tolist(), own


def test_philly_is_what_pandas_reads() -> None:
    jobs, _, report = read(PHILLY)
    plain = pd.read_csv(DATA / PHILLY)
    assert np.array_equal(jobs["submit_s"], epoch_s(plain["timestamp"]))
    assert np.array_equal(jobs["runtime_s"], plain["duration"])
    assert np.array_equal(jobs["gpus"], plain["num_gpus"])
    assert jobs["queue"].astype(str).tolist() == plain["cluster"].tolist()
    assert jobs[["user", "start_s", "requested_s", "nodes"]].isna().all(axis=None)
    assert any("no column has users" in note for note in report.notes)


def test_kestrel_is_what_pandas_reads() -> None:
    jobs, _, report = read(KESTREL)
    plain = pd.read_parquet(DATA / KESTREL)
    for own, name in (("submit_s", "submit"), ("start_s", "start"), ("end_s", "end")):
        assert np.array_equal(jobs[own], epoch_s(plain[name]))
    assert np.array_equal(jobs["runtime_s"], plain["runtime"].dt.total_seconds())
    assert np.array_equal(jobs["nodes"], plain["nodes"]) and np.array_equal(jobs["procs"], plain["nodes"])
    assert any("nodes are counted as processors" in note for note in report.notes)


def test_cirrus_which_is_no_known_set_is_guessed() -> None:
    jobs, _, report = read(CIRRUS)
    plain = pd.read_csv(DATA / CIRRUS)
    for own, name in (
        ("submit_s", "Submit Time"),
        ("end_s", "End Time"),
        ("runtime_s", "Makespan"),
        ("nodes", "Nodes"),
    ):
        assert np.array_equal(jobs[own].astype(float), plain[name].astype(float)), own
    assert set(jobs["state"].astype(str)) == {"COMPLETED"} and any("log's start" in note for note in report.notes)
