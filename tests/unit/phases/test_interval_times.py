"""Times of intervals from a CSV."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from pipeline.errors import InputError
from pipeline.phases.blocks import read_interval_times


def written(folder: Path, text: str) -> Path:
    path = folder / "times.csv"
    path.write_text(text)
    return path


def test_a_column_of_seconds_is_read(tmp_path: Path) -> None:
    path = written(tmp_path, "interval,cpu_s_1,time_s\n0,9,0.5\n2,9,0.25\n")
    assert np.array_equal(read_interval_times(path, 4), [0.5, np.nan, 0.25, np.nan], equal_nan=True)
    path.write_bytes(gzip.compress(path.read_bytes()))
    assert read_interval_times(path, 4, "cpu_s_1")[2] == 9


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("interval,cpu_s\n0,1\n", "column time_s"),
        ("interval,time_s\n0,1\n0,2\n", "line 3: found interval 0 a second time"),
        ("interval,time_s\n7,1\n", "line 2: found interval 7"),
        ("interval,time_s\n0,0\n", "line 2: found time_s 0, expected seconds above 0"),
        ("interval,time_s\n0,inf\n", "line 2: found time_s inf"),
        ("interval,time_s\n0,\n", "line 2: found time_s empty"),
        ("interval,time_s\n0,abc\n", "line 2: found time_s abc"),
        ("interval,time_s\n0\n", "line 2: found time_s empty"),
        ("", "no column interval"),
    ],
)
def test_bad_times_are_one_sentence(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(InputError) as found:
        read_interval_times(written(tmp_path, text), 3)
    assert said in str(found.value) and "\n" not in str(found.value)


def test_a_cut_packed_file_is_one_sentence(tmp_path: Path) -> None:
    path = written(tmp_path, "interval,time_s\n" + "".join(f"{i},0.{i + 1}\n" for i in range(500)))
    path.write_bytes(gzip.compress(path.read_bytes())[:-20])
    with pytest.raises(InputError, match="cannot be read"):
        read_interval_times(path, 500)
    with pytest.raises(InputError, match="cannot be read"):
        read_interval_times(tmp_path / "absent.csv", 3)
