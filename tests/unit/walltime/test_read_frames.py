"""A frame, dataset or relation with a row for each job is read as a log is."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import walltime as wt
from pipeline.errors import InputError

NOON = 1_767_268_800
FRAME = pd.DataFrame(
    {
        "id": [1, 2, 3],
        "owner": pd.Categorical(["ann", None, "bob"]),
        "submit": pd.to_datetime([NOON, NOON + 1, None], unit="s", utc=True),
        "elapsed": pd.to_timedelta([60, None, 90.5], unit="s"),
        "cores": [4, None, 16],
    }
)


def _dataset(folder: Path) -> Any:
    table = pa.Table.from_pandas(FRAME)
    for row in range(3):
        pq.write_table(table.slice(row, 1), folder / f"{row}.parquet")
    return ds.dataset(folder)


KINDS: dict[str, Callable[[Path], Any]] = {
    "pandas": lambda _: FRAME,
    "polars": lambda _: pl.from_pandas(FRAME),
    "arrow": lambda _: pa.Table.from_pandas(FRAME),
    "dataset": _dataset,
    "duckdb": lambda _: duckdb.from_df(FRAME),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_the_same_jobs(kind: str, tmp_path: Path) -> None:
    jobs = wt.read(KINDS[kind](tmp_path), site="here").set_index("job_id")
    assert jobs.loc[["1", "2", "3"], "runtime_s"].fillna(-1).tolist() == [60.0, -1, 90.5]
    assert jobs.loc[["1", "2", "3"], "submit_s"].fillna(-1).tolist() == [NOON, NOON + 1, -1]
    assert jobs.loc[["1", "2", "3"], "procs"].fillna(-1).tolist() == [4, -1, 16]
    assert jobs.loc["1", "user"] == "ann" and pd.isna(jobs.loc["2", "user"])


def test_files_of_a_folder_are_one_log(tmp_path: Path) -> None:
    _dataset(tmp_path)
    jobs = wt.read(tmp_path)
    assert sorted(jobs["job_id"]) == ["1", "2", "3"] and jobs["source_file"].nunique() == 3


def test_what_is_no_frame_is_one_sentence() -> None:
    with pytest.raises(InputError, match="a relation of DuckDB"):
        wt.read({"submit": [1]})
