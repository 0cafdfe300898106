"""What the system says of a file becomes a sentence with where, found, expected and what to do."""

import errno
import os
from pathlib import Path

import pytest

from flows.services.files.os_errors import naming_path, os_failure, read_text
from pipeline.errors import InputError


@pytest.mark.parametrize(
    ("number", "name", "sentence"),
    [
        (errno.EACCES, "/a/.x.parquet.2948.draft", "/a/x.parquet: found no permission to use it, expected"),
        (errno.ENOSPC, "/a/.fit-k.12.draft/fits.parquet", "/a/fit-k/fits.parquet: found a full disk, expected room"),
        (errno.EROFS, "/a/.walltime-scratch-x/y", "/a: found a read-only disk, expected"),
        (errno.EEXIST, "/a/b", "/a/b: found a file where a folder is needed, expected a folder"),
        (errno.EIO, "/a/b", "/a/b: found input/output error, expected"),
        (errno.ENOSPC, None, "a file: found a full disk"),
    ],
)
def test_the_sentence_names_the_file_that_the_user_knows(number: int, name: str | None, sentence: str) -> None:
    assert str(os_failure(OSError(number, os.strerror(number), name))).startswith(sentence)


def test_a_path_through_a_file_names_that_file(tmp_path: Path) -> None:
    (tmp_path / "afile").touch()
    with pytest.raises(NotADirectoryError) as caught:
        (tmp_path / "afile/work").mkdir()
    assert str(os_failure(caught.value)).startswith(f"{tmp_path}/afile: found a file where a folder is needed")


def test_a_full_disk_is_named() -> None:
    with pytest.raises(OSError) as caught, naming_path(Path("out")):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert str(os_failure(caught.value)).startswith("out: found a full disk")


def test_text_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes(b"a\n\xe9")
    for name, sentence in (
        ("", "found a folder, expected x"),
        ("none", "no such file"),
        ("latin", "line 2: found byte"),
    ):
        with pytest.raises(InputError, match=sentence):
            read_text(tmp_path / name, "x")
