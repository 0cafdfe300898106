"""Jobs that are written to a file a part at a time are those that are read into memory."""

from pathlib import Path

import pyarrow as pa
import pytest

from pipeline.clean import clean
from pipeline.errors import ConfigError, InputError
from pipeline.ingest import OPEN, OnDisk, Window, ingest, records
from pipeline.large_tables import StoredTable, rows_of
from pipeline.settings import CleanSettings, IngestSettings, SiteSettings
from pipeline.storage import write_batches, write_table
from pipeline.tables import JOBS

LOG = Path(__file__).parents[3] / "data_samples" / "traps.swf"
SITE = SiteSettings(name="traps")


@pytest.fixture(scope="module")
def jobs() -> pa.Table:
    return ingest([LOG], SITE, IngestSettings())[0]


def ingest_stored(paths: list[Path], site: SiteSettings, window_s: Window, folder: Path | None):  # type: ignore[no-untyped-def]
    to = OnDisk.between_steps(folder) if folder else None
    return ingest(paths, site, IngestSettings(), to=to, window_s=window_s)


def same_rows(one: pa.Table, other: pa.Table) -> bool:
    return one.to_pylist() == other.to_pylist()


def test_a_log_is_read_as_into_memory_and_leaves_one_file(jobs: pa.Table, tmp_path: Path) -> None:
    found, unreadable, report = ingest_stored([LOG], SITE, OPEN, tmp_path)
    expected = ingest([LOG], SITE, IngestSettings())
    assert isinstance(found, StoredTable) and same_rows(rows_of(found), jobs)
    assert same_rows(unreadable, expected[1])
    assert report == expected[2]
    assert [path.name for path in tmp_path.iterdir()] == ["jobs_read.parquet"]


def test_without_a_folder_the_jobs_stay_in_memory(jobs: pa.Table) -> None:
    found, *_ = ingest_stored([LOG], SITE, OPEN, None)
    assert isinstance(found, pa.Table) and found.equals(jobs)


@pytest.mark.parametrize("is_sorted", [True, False])
def test_a_table_is_passed_on_in_batches_or_sorted_first(jobs: pa.Table, tmp_path: Path, is_sorted: bool) -> None:
    table = jobs if is_sorted else jobs.take(pa.array(range(jobs.num_rows)[::-1]))
    path = write_table(tmp_path / "given.parquet", table, JOBS)
    (tmp_path / "own").mkdir()
    found, _, report = ingest_stored([path], SITE, OPEN, tmp_path / "own")
    expected = ingest([path], SITE, IngestSettings())
    assert same_rows(rows_of(found), expected[0])
    assert (report.facts, report.seen.rows) == (expected[2].facts, expected[2].seen.rows)


def test_jobs_of_other_sites_are_counted_and_left_out(jobs: pa.Table, tmp_path: Path) -> None:
    other = jobs.slice(0, 5).set_column(0, JOBS.schema().field("site"), pa.array(["x"] * 5).dictionary_encode())
    both = pa.concat_tables([other, jobs.slice(5)]).unify_dictionaries()
    path = write_table(tmp_path / "given.parquet", both, JOBS)
    found, _, report = ingest_stored([path], SITE, OPEN, tmp_path)
    assert found.num_rows == jobs.num_rows - 5
    assert report.set_aside["other_site"].rows == 5


def test_a_table_with_a_job_twice_is_refused_and_leaves_nothing(jobs: pa.Table, tmp_path: Path) -> None:
    both = pa.concat_tables([jobs.slice(0, 1), jobs]).unify_dictionaries()
    path = tmp_path / "given.parquet"
    write_batches(path, [both], JOBS)
    (tmp_path / "own").mkdir()
    with pytest.raises(InputError, match="repeating the key"):
        ingest_stored([path], SITE, OPEN, tmp_path / "own")
    assert not list((tmp_path / "own").iterdir())


def test_a_job_that_is_there_twice_far_apart_is_refused(jobs: pa.Table, tmp_path: Path) -> None:
    again = jobs.slice(0, 1)
    late = pa.array([jobs.column("submit_s").drop_null()[-1].as_py() + 1])
    again = again.set_column(again.column_names.index("submit_s"), JOBS.schema().field("submit_s"), late)
    known = jobs.filter(jobs.column("submit_s").is_valid())
    path = write_batches(tmp_path / "given.parquet", [pa.concat_tables([known, again]).unify_dictionaries()], JOBS)
    (tmp_path / "own").mkdir()
    with pytest.raises(InputError, match="repeating the key"):
        ingest_stored([path], SITE, OPEN, tmp_path / "own")


def test_a_table_that_was_cleaned_is_given_as_its_log_was_read(jobs: pa.Table, tmp_path: Path) -> None:
    path = write_table(tmp_path / "given.parquet", jobs, JOBS)
    (tmp_path / "own").mkdir()
    found, *_ = ingest_stored([path], SITE, OPEN, tmp_path / "own")
    assert isinstance(found, StoredTable) and not found.path.samefile(path)
    assert same_rows(rows_of(found), jobs)
    cleaned, *_ = clean(jobs, CleanSettings(), SITE)
    assert cleaned.column("flag").null_count < cleaned.num_rows
    (tmp_path / "other").mkdir()
    path = write_table(tmp_path / "cleaned.parquet", cleaned, JOBS)
    found, *_ = ingest_stored([path], SITE, OPEN, tmp_path / "other")
    assert same_rows(rows_of(found), jobs)


def test_hashed_names_beside_plain_ones_are_refused_before_a_row_is_written(jobs: pa.Table, tmp_path: Path) -> None:
    path = write_table(tmp_path / "given.parquet", jobs, JOBS)
    key = tmp_path / "key"
    key.write_bytes(b"k" * 32)
    key.chmod(0o600)
    with pytest.raises(ConfigError):
        ingest_stored([path], SITE.model_copy(update={"anonymise": True, "key_file": str(key)}), OPEN, tmp_path)


def test_a_window_is_cut_in_parts(jobs: pa.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    submit_s = jobs.column("submit_s").drop_null().to_pylist()
    window_s = (submit_s[len(submit_s) // 4], submit_s[len(submit_s) // 2])
    expected = ingest([LOG], SITE, IngestSettings(), window_s=window_s)
    monkeypatch.setattr(records, "BATCH_ROWS", 37)
    monkeypatch.setattr(records, "is_in_order", lambda _: False)
    found, _, report = ingest_stored([LOG], SITE, window_s, tmp_path)
    assert same_rows(rows_of(found), expected[0])
    assert report.facts == expected[2].facts
    assert report.set_aside["outside_window"].rows == expected[2].set_aside["outside_window"].rows
    assert [path.name for path in tmp_path.iterdir()] == ["jobs_read.parquet"]


def test_a_window_without_jobs_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="none of them submitted"):
        ingest_stored([LOG], SITE, (1, 2), tmp_path)
    assert not list(tmp_path.iterdir())
