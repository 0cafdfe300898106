"""Frequency vectors as exp-bbv writes them, and every way in which a file of them can be damaged."""

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import InputError
from pipeline.phases.blocks import looks_like_vectors, read_frequency_vectors

TWO = b"T:1:4   :7:6   \nT:7:3   :9000000000:1   :7:2\n"


def written(folder: Path, text: bytes, name: str = "run.bb") -> Path:
    path = folder / name
    path.write_bytes(text)
    return path


def refusal(path: Path) -> str:
    with pytest.raises(InputError) as found:
        read_frequency_vectors(path)
    assert "\n" not in str(found.value) and "\x1b" not in str(found.value)
    return str(found.value)


def test_blocks_and_counts_are_read(tmp_path: Path) -> None:
    text = b"# written by a tool\n\n" + TWO + b"#   Total instructions: 16\n"
    for name, packed in (
        ("run.bb", text),
        ("run.bb.gz", gzip.compress(text)),
        ("gzip-without-its-ending", gzip.compress(text)),
    ):
        found = read_frequency_vectors(written(tmp_path, packed, name))
        assert found.n_intervals == 2 and found.n_comments == 2
        assert found.block_ids.tolist() == [1, 7, 9000000000]
        assert found.block.tolist() == [0, 1, 1, 2, 1] and found.count.tolist() == [4, 6, 3, 1, 2]
        assert found.totals.tolist() == [10, 6]


@given(st.lists(st.dictionaries(st.integers(1, 60), st.integers(1, 10**12), min_size=1), min_size=1, max_size=20))
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, intervals: list[dict[int, int]]) -> None:
    lines = ["T" + "".join(f":{block}:{count}   " for block, count in one.items()) + "\n" for one in intervals]
    found = read_frequency_vectors(written(tmp_path_factory.mktemp("bb"), "".join(lines).encode()))
    for i, one in enumerate(intervals):
        entries = slice(found.first_entry[i], found.first_entry[i + 1])
        read = dict(zip(found.block_ids[found.block[entries]].tolist(), found.count[entries].tolist(), strict=True))
        assert read == one


def test_every_cut_of_a_packed_file_is_one_sentence(tmp_path: Path) -> None:
    whole = gzip.compress(TWO * 40, mtime=0)
    for length in range(3, len(whole)):
        assert "cut off or damaged" in refusal(written(tmp_path, whole[:length]))


def test_every_cut_of_a_plain_file_but_at_a_line_end_is_one_sentence(tmp_path: Path) -> None:
    for length in range(len(TWO)):
        if not TWO[:length].endswith(b"\n"):
            assert "run.bb" in refusal(written(tmp_path, TWO[:length]))


def test_damaged_packed_bytes_are_one_sentence(tmp_path: Path) -> None:
    whole = bytearray(gzip.compress(TWO * 400, mtime=0))
    for place in range(12, len(whole), 7):
        damaged = bytes(whole[:place]) + bytes([whole[place] ^ 0xFF]) + bytes(whole[place + 1 :])
        refusal(written(tmp_path, damaged))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"T\n", "line 3: found 'T'"),
        (b"T:1:2 :3\n", "line 3: found 'T:1:2 :3'"),
        (b"T:1:-2\n", "line 3"),
        (b"T:1:1e9\n", "line 3"),
        (b"T:1:0 :2:0\n", "without executions"),
        (b"T:1:9999999999999999\n", "line 3"),
        (b"T:99999999999:1\n", "line 3"),
        (b"B:1:2\n", "line 3"),
        (b"T:1:2\x00\n", "line 3"),
        (b"\x1b[31mT:1:2\n", "\\x1b"),
        (b"\xff\xfe\n", "line 3"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: bytes, said: str) -> None:
    assert said in refusal(written(tmp_path, TWO + line))


def test_a_file_without_intervals_is_refused(tmp_path: Path) -> None:
    assert "no interval" in refusal(written(tmp_path, b"# only a comment\n"))
    assert "no interval" in refusal(written(tmp_path, b""))
    assert "cannot be read" in refusal(tmp_path)
    assert "cannot be read" in refusal(tmp_path / "absent.bb")


def test_a_line_has_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.phases.blocks.MAX_LINE_BYTES", 1 << 20)
    bomb = written(tmp_path, gzip.compress(b"T" + b":1:1" * 10**6))
    assert "1 MiB without a line end" in refusal(bomb)


def test_vectors_are_told_from_other_files(tmp_path: Path) -> None:
    assert looks_like_vectors(written(tmp_path, b"# c\n" + TWO))
    assert looks_like_vectors(written(tmp_path, gzip.compress(TWO)))
    assert not looks_like_vectors(written(tmp_path, b"rank,seq,op\n"))
    assert not looks_like_vectors(written(tmp_path, b""))
    assert not looks_like_vectors(tmp_path / "absent.bb")


def test_totals_are_sums_of_lines(tmp_path: Path) -> None:
    found = read_frequency_vectors(written(tmp_path, TWO * 3))
    assert np.array_equal(found.totals, [10, 6] * 3)
