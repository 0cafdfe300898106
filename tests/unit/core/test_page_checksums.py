"""A Parquet file that Walltime wrote tells by itself that a page of it has changed."""

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from flows.services.published.published_folder import read_columns
from pipeline.errors import InputError
from pipeline.storage import read_table, write_table
from pipeline.tables import JOBS
from tests.unit.publish.versions_of_tables import jobs


def test_no_changed_byte_of_a_page_is_read_as_another_value(tmp_path: Path) -> None:
    path = write_table(tmp_path / "jobs.parquet", jobs(2_000), JOBS)
    whole, table = path.read_bytes(), read_table(path, JOBS)
    n_bytes = len(whole) - pq.read_metadata(path).serialized_size - 8
    n_refused = 0
    for at in np.random.default_rng(29).integers(4, n_bytes, 200).tolist():
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
        for read in (lambda: read_table(path, JOBS), lambda: JOBS.check(read_columns(path, JOBS))):
            try:
                assert read().equals(table)
            except InputError:
                n_refused += 1
    assert n_refused > 300


def test_a_cut_table_is_refused_by_name(tmp_path: Path) -> None:
    path = write_table(tmp_path / "jobs.parquet", jobs(20), JOBS)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(InputError, match=r"jobs\.parquet"):
        read_table(path, JOBS)
