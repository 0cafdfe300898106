"""What an input costs is bounded by the size of real logs: blank lines, packed newlines, tables that unpack to much."""

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.errors import InputError
from pipeline.ingest import ingest
from pipeline.settings import IngestSettings, SiteSettings
from pipeline.storage import read_older_batches, write_table
from pipeline.tables import JOBS
from tests.unit.ingest.logs import ROW
from tests.unit.publish.versions_of_tables import jobs

LINES: dict[str, bytes] = {"swf": b"\n", "pbs": b"\r\n", "sacct": b" \n", "comments": b";\n"}


@pytest.mark.parametrize("kind", sorted(LINES))
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_many_lines_without_a_record_are_refused_in_a_sentence(
    tmp_path: Path, kind: str, pack: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / "log"
    path.write_bytes(pack(ROW.encode() + b"\n" + LINES[kind] * 2_000_000))
    with pytest.raises(InputError, match=r"^log, line 1: found [\d,]+ lines in [\d,]+ bytes.*remove the blank lines"):
        ingest([path], SiteSettings(), IngestSettings())


def test_some_blank_lines_are_read_over(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(ROW.encode() + b"\n" * 60_000)
    assert ingest([path], SiteSettings(), IngestSettings())[0].num_rows == 1


def test_a_table_that_unpacks_to_far_more_than_its_bytes_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "jobs.parquet"
    table = jobs(5_000)
    place = table.column_names.index("job_name")
    bomb = table.set_column(place, "job_name", pa.array(["x" * 100_000] * 5_000))
    pq.write_table(bomb, path, compression="zstd", data_page_size=1 << 30, store_schema=False)
    monkeypatch.setattr("pipeline.storage.MAX_UNPACKED_BYTES", 1 << 28)
    assert path.stat().st_size < 2_000_000
    with pytest.raises(InputError, match=r"jobs\.parquet: found 500,000,000 bytes in one part .* at most"):
        list(read_older_batches(path, JOBS))


def test_a_table_of_many_rows_in_few_bytes_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, zeros = tmp_path / "jobs.parquet", np.zeros(1_000_000, np.int64)
    pq.write_table(pa.table({"submit_s": zeros, "runtime_s": zeros, "procs": zeros}), path)
    monkeypatch.setattr("pipeline.storage.MANY_ROWS", 1_000)
    with pytest.raises(InputError, match=r"jobs\.parquet: found 1,000,000 rows in [\d,]+ bytes"):
        ingest([path], SiteSettings(), IngestSettings())


def test_a_table_of_jobs_is_read_in_parts_as_it_was_written(tmp_path: Path) -> None:
    table = jobs(3_000)
    path = write_table(tmp_path / "jobs.parquet", table, JOBS)
    assert pa.concat_tables(read_older_batches(path, JOBS)).equals(JOBS.check(table))


def test_a_table_of_jobs_with_a_damaged_byte_or_end_is_one_sentence(tmp_path: Path) -> None:
    path = write_table(tmp_path / "jobs.parquet", jobs(300), JOBS)
    whole, site = path.read_bytes(), SiteSettings(name="oxbow")
    expected = ingest([path], site, IngestSettings())[0]
    rng, n_refused = np.random.default_rng(29), 0
    for at in rng.integers(0, len(whole), 300).tolist():
        path.write_bytes(whole[:at] + (bytes([whole[at] ^ 32]) + whole[at + 1 :] if at % 2 else b""))
        try:
            assert ingest([path], site, IngestSettings())[0].equals(expected)
        except InputError as error:
            n_refused += 1
            assert "jobs.parquet" in str(error) or at < 4
    assert n_refused > 200
