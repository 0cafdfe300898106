"""A table that is replaced often: its pointer names it by its content, in one step, and nothing is left behind."""

import json
import os
from pathlib import Path

import pytest

from pipeline.errors import InputError
from pipeline.publish.store import KEPT_TABLES, kept_table, new_table


def put(pointer: Path, content: bytes) -> Path:
    with new_table(pointer) as draft:
        draft.write_bytes(content)
    path = kept_table(pointer)
    assert path is not None and path.read_bytes() == content
    return path


def test_the_newest_tables_stay_and_what_dead_or_older_writers_left_goes(tmp_path: Path) -> None:
    pointer = tmp_path / "state.json"
    assert kept_table(pointer) is None
    for name in ("state.parquet", "state.parquet.sha256", ".state.json.7.draft", "..state.json.7.draft.7.draft"):
        (tmp_path / name).touch()
    others = {"waits.json", "waits-0123456789abcdef.parquet", ".waits.json.7.draft", ".lock"}
    for name in others:
        (tmp_path / name).touch()
    paths = [put(pointer, bytes([n])) for n in range(6)]
    assert {path.name for path in tmp_path.iterdir()} == others | {
        "state.json",
        *(one.name for one in paths[-KEPT_TABLES:]),
    }
    assert put(pointer, b"\x05") == paths[-1]


def test_a_writer_that_fails_changes_nothing(tmp_path: Path) -> None:
    pointer = tmp_path / "state.json"
    path = put(pointer, b"one")
    with pytest.raises(OSError, match="full"), new_table(pointer) as draft:
        draft.write_bytes(b"tw")
        raise OSError("full")
    assert kept_table(pointer) == path and len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("name", ["../secret-0123456789abcdef.parquet", "/etc/passwd", "x", 7])
def test_a_pointer_that_names_something_else_is_one_sentence(tmp_path: Path, name: object) -> None:
    pointer = tmp_path / "state.json"
    pointer.write_text(json.dumps({"table": name, "tables": [name]}))
    with pytest.raises(InputError, match="text that names no table"):
        kept_table(pointer)


def test_a_changed_a_cut_and_a_lost_table_are_told(tmp_path: Path) -> None:
    pointer = tmp_path / "state.json"
    path = put(pointer, b"PAR1 and rows")
    for n, content in enumerate((b"PAR1 and rowz", b"PAR1")):
        path.write_bytes(content)
        os.utime(path, (n, n))
        with pytest.raises(InputError, match="found damaged bytes"):
            kept_table(pointer)
    path.unlink()
    with pytest.raises(InputError, match="found no such file"):
        kept_table(pointer)
