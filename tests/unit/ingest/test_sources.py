"""Opening logs: what compresses, cuts, hides or breaks them."""

import bz2
import gzip
import lzma
import os
import random
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from pipeline.errors import InputError
from pipeline.ingest import ingest
from pipeline.ingest.sources import MAX_LINE_BYTES, Source, find_sources, line_blocks, unpacked
from pipeline.settings import IngestSettings, SiteSettings
from tests.unit.ingest.logs import ROW, row

ROWS = "".join(row(job_id=i, submit_s=i * i, user=i % 7, cpu_s=i * 31 % 977) + "\n" for i in range(1, 3001)).encode()


def zstd(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "xz": lzma.compress,
    "bzip2": bz2.compress,
    "zstd": zstd,
}


def read(*paths: Path, **settings: object) -> list[dict[str, object]]:
    jobs, _, _ = ingest(paths, SiteSettings(), IngestSettings(**settings))
    return jobs.to_pylist()


def message(*paths: Path) -> str:
    with pytest.raises(InputError) as caught:
        read(*paths)
    said = str(caught.value)
    assert "\n" not in said
    return said


@pytest.mark.parametrize("kind", PACKERS)
def test_compression_is_told_by_content_not_by_name(tmp_path: Path, kind: str) -> None:
    (tmp_path / "log.txt").write_bytes(PACKERS[kind](ROWS))
    assert [job["job_id"] for job in read(tmp_path / "log.txt")] == [str(i) for i in range(1, 3001)]


def test_gzip_members_may_follow_one_another(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(gzip.compress(ROWS[:5000]) + gzip.compress(ROWS[5000:]))
    assert len(read(tmp_path / "log")) == 3000


@pytest.mark.parametrize("size", [1, 100, 1 << 17, (1 << 17) + 1, 1 << 20])
def test_zeros_after_a_gzip_member_are_left_alone(tmp_path: Path, size: int) -> None:
    """Tapes and disk images pad files so; Python's own module passes over them too."""
    (tmp_path / "log").write_bytes(gzip.compress(ROWS[:5000]) + bytes(size) + gzip.compress(ROWS[5000:]) + bytes(size))
    assert len(read(tmp_path / "log")) == 3000


@pytest.mark.parametrize("cut", [1, 4, 8, 9])
def test_a_gzip_file_cut_within_its_checksum_is_cut(tmp_path: Path, cut: int) -> None:
    (tmp_path / "log").write_bytes(gzip.compress(ROWS)[:-cut])
    assert "ends in the middle" in message(tmp_path / "log")


@pytest.mark.parametrize("size", [1, 7, 4096, 1 << 20])
def test_packed_bytes_come_in_the_size_asked_for(tmp_path: Path, size: int) -> None:
    (tmp_path / "log").write_bytes(gzip.compress(ROWS))
    with unpacked(tmp_path / "log") as stream:
        parts = list(iter(lambda: stream.read(size), b""))
    assert b"".join(parts) == ROWS and {len(part) for part in parts[:-1]} <= {size}


@pytest.mark.parametrize("kind", PACKERS)
def test_a_cut_file_is_one_clear_error(tmp_path: Path, kind: str) -> None:
    packed = PACKERS[kind](ROWS)
    (tmp_path / "log").write_bytes(packed[: len(packed) * 2 // 3])
    said = message(tmp_path / "log")
    assert said.startswith("log, line ")
    assert "found a compressed file that ends in the middle, expected a whole file; copy or export" in said


def test_a_cut_gzip_names_the_line_it_reaches(tmp_path: Path) -> None:
    noise = random.Random(1)
    lines = [row(job_id=i, cpu_s=noise.randrange(10**9), user=noise.randrange(10**9)) for i in range(1, 3001)]
    packed = gzip.compress("".join(line + "\n" for line in lines).encode())
    (tmp_path / "log.gz").write_bytes(packed[: len(packed) // 2])
    line = int(message(tmp_path / "log.gz").split("line ")[1].split(":")[0])
    assert 1_200 < line < 1_800


def test_a_damaged_file_is_one_clear_error(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(ROWS))
    packed[len(packed) // 2] ^= 0xFF
    (tmp_path / "log.gz").write_bytes(packed)
    assert "found compressed data that is damaged" in message(tmp_path / "log.gz")


def test_what_is_no_log_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "empty.gz").write_bytes(gzip.compress(b""))
    (tmp_path / "binary").write_bytes(random.Random(3).randbytes(100_000))
    (tmp_path / "zeros").write_bytes(bytes(1000))
    (tmp_path / "one_line").write_bytes(b"\x7fELF\x02\x01" + b"\x90" * 3_000_000)
    (tmp_path / "utf16").write_bytes(ROWS.decode().encode("utf-16"))
    (tmp_path / "folder").mkdir()
    assert message(tmp_path / "empty").startswith("empty, line 1: found an empty file, expected a log")
    assert message(tmp_path / "empty.gz").startswith("empty.gz, line 1: found an empty file")
    assert message(tmp_path / "missing.swf").endswith(
        "missing.swf: found no such file or folder, expected a log, a folder or a glob; check the path."
    )
    assert "found no such file" in message(tmp_path / "*.swf")
    assert "found a folder without a file" in message(tmp_path / "folder")
    assert message().startswith("the list of logs: found no path")
    for name in ("binary", "zeros", "one_line", "utf16"):
        said = message(tmp_path / name)
        assert said.startswith(f"{name}, line 1: found ")
        wanted = {"zeros": "expected a log; ", "utf16": "expected text in UTF-8"}
        assert wanted.get(name, "expected SWF: 18 numbers a line") in said
        assert said.isprintable()


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_a_file_without_permission_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(ROWS)
    (tmp_path / "log").chmod(0)
    assert "may not read" in message(tmp_path / "log")


def test_a_folder_gives_its_logs_and_names_what_it_passes_over(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / ".hidden").mkdir()
    (tmp_path / "b" / "two.swf.gz").write_bytes(gzip.compress(f"{row(job_id=2)}\n".encode()))
    (tmp_path / "one").write_text(row(job_id=1) + "\n")
    (tmp_path / ".hidden" / "three").write_text(row(job_id=3) + "\n")
    (tmp_path / "README.md").write_text("These are logs.\n")
    (tmp_path / "nothing").write_text("")
    jobs, _, report = ingest([tmp_path], SiteSettings(), IngestSettings())
    assert list(zip(jobs["job_id"].to_pylist(), jobs["source_file"].to_pylist(), strict=True)) == [
        ("1", "one"), ("2", "b/two.swf.gz"),
    ]  # fmt: skip
    assert [note.split(" is ")[0] for note in report.notes if "passed over" in note] == ["README.md", "nothing"]
    assert report.facts["files"] == 2


def test_a_folder_without_a_log_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("No logs here.\n")
    assert "found no file of a known format, expected SWF" in message(tmp_path)


def test_globs_and_paths_that_lead_to_one_file_read_it_once(tmp_path: Path) -> None:
    for i in (1, 2):
        (tmp_path / f"{i}.swf").write_text(row(job_id=i) + "\n")
    (tmp_path / "link.swf").symlink_to(tmp_path / "1.swf")
    jobs, _, report = ingest([tmp_path / "*.swf", tmp_path / "1.swf", tmp_path], SiteSettings(), IngestSettings())
    assert (jobs.num_rows, report.facts["files"], report.set_aside["superseded"].rows) == (2, 2, 0)


def test_labels_of_one_name_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    paths = [tmp_path / place / "log.swf" for place in ("x/1", "y/1", "z/2")]
    for path in paths:
        path.parent.mkdir(parents=True)
        path.write_text(ROW)
    assert [source.label for source in find_sources(paths)] == ["2/log.swf", "x/1/log.swf", "y/1/log.swf"]


@pytest.mark.parametrize("block_bytes", [1, 7, 64, 1 << 12, 1 << 22])
def test_blocks_do_not_depend_on_how_reads_fall(tmp_path: Path, block_bytes: int) -> None:
    log = b"\xef\xbb\xbfa\r\n\n" + b"x" * 100 + b"\nlast"
    (tmp_path / "log").write_bytes(log)
    blocks = list(line_blocks(Source(tmp_path / "log", "log"), block_bytes))
    assert b"".join(block.data for block in blocks) == b"   " + log[3:]
    assert sum(block.n_lines for block in blocks) == 4
    for block in blocks:
        assert block.line == 1 + log[: block.offset].count(b"\n")
        assert block.data == (b"   " + log[3:])[block.offset :][: len(block.data)]


@pytest.mark.parametrize("block_bytes", [1 << 16, 1 << 24])
def test_a_line_of_megabytes_is_set_aside_and_what_follows_keeps_its_place(tmp_path: Path, block_bytes: int) -> None:
    long = b"9" * (3 * MAX_LINE_BYTES)
    log = ROW.encode() + b"\n" + long + b"\n;" + long + b"\n" + row(job_id=8).encode() + b"\n?\n"
    (tmp_path / "log").write_bytes(log)
    blocks = list(line_blocks(Source(tmp_path / "log", "log"), block_bytes))
    assert sum(block.n_lines for block in blocks) == 5
    assert all(log[block.offset :].startswith(block.data[:1000].rstrip(b"\n")) for block in blocks)
    assert max(len(block.data) for block in blocks) <= max(block_bytes, 2 * MAX_LINE_BYTES)
    jobs, unreadable, report = ingest([tmp_path / "log"], SiteSettings(), IngestSettings())
    assert jobs["source_line"].to_pylist() == [1, 4]
    assert unreadable.select(["source_line", "byte_offset", "reason", "raw"]).to_pylist() == [
        {"source_line": 2, "byte_offset": len(ROW) + 1.0, "reason": "line_too_long", "raw": "9" * 500},
        {"source_line": 5, "byte_offset": len(log) - 2.0, "reason": "not_a_number", "raw": "?"},
    ]
    assert report.facts["bytes"] == len(log)
