"""CSV files of measured runtimes: what is read, and the one sentence for what cannot be."""

from pathlib import Path

import pytest

from flows.services.series_files import read_runs
from pipeline.errors import InputError


def write(folder: Path, text: str | bytes) -> Path:
    path = folder / "lu.csv"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_repeats_and_series(tmp_path: Path) -> None:
    text = "\ufeffprocs , runtime_s,application,problem_size\n4,10,LU,W\n4,30,LU,W\n\n2,50,LU,W\n4,7,LU,A\n"
    rows = read_runs(write(tmp_path, text))[0].to_pylist()
    found = [(row["group_id"], row["procs"], row["n_jobs"], row["runtime_s_median"]) for row in rows]
    small, large = "application=LU problem_size=A", "application=LU problem_size=W"
    assert found == [(small, 4, 1, 7.0), (large, 2, 1, 50.0), (large, 4, 2, 20.0)]


def test_without_names_the_file_names_the_series(tmp_path: Path) -> None:
    assert read_runs(write(tmp_path, "procs,runtime_s\n1,2\n"))[0].column("group_id").to_pylist() == ["lu"]


def test_a_header_in_capitals_and_counts_as_a_spreadsheet_writes_them(tmp_path: Path) -> None:
    rows = read_runs(write(tmp_path, "Procs,Runtime_S,\n1e3,2,\n4.0,3\n"))[0].to_pylist()
    assert [(row["procs"], row["runtime_s_median"]) for row in rows] == [(4, 3.0), (1000, 2.0)]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "an empty file"),
        ("procs,speed\n1,2\n", "line 1: found the columns procs, speed, expected a column runtime_s"),
        ("nodes,ranks,threads,time_s\n1,4,8,9\n", "line 1: .*add a column procs with the processors of each run"),
        ("procs,runtime_s\n", "no rows below the header"),
        ("procs,runtime_s\n1,2\n\n2,x\n", "line 4: found runtime_s = 'x'"),
        ("procs,runtime_s\n1,2\n1.5,2\n", "line 3: found procs = '1.5', expected a whole number"),
        ("procs,runtime_s\n0,2\n", "line 2: found procs = '0'"),
        (
            "procs,runtime_s\n1,-2\n",
            "line 2: found runtime_s = '-2', expected a runtime in seconds, from 1e-09 to 1e\\+12",
        ),
        ("procs,runtime_s\n1,2\n2,1e308\n", "line 3: found runtime_s = '1e308', expected a runtime in seconds"),
        ("procs,runtime_s\n1,nan\n", "line 2: found runtime_s = 'nan'"),
        ("procs,runtime_s\n1,inf\n", "line 2"),
        ("procs,runtime_s\n1,1e400\n", "line 2"),
        ("procs,runtime_s\n1e30,2\n", "line 2: found procs"),
        ("procs,runtime_s\n1\n", "line 2: found runtime_s = ''"),
        ("procs,runtime_s\n1,2,3\n", "line 2: found 3 values, expected 2"),
        ("procs,runtime_s\n1,2\n1,2,3\n", "line 3: found 3 values, expected 2, as line 1 has columns"),
        ("procs,runtime_s,Procs\n1,2,3\n", "line 1: found 2 columns procs, expected one"),
        ("procs,runtime_s\n1,\x1b[31m\n", r"\\x1b"),
        (b"\x89PNG\xff\xfe\x00", "line 1: found bytes that are no UTF-8 .the first is 0x89."),
    ],
)
def test_what_cannot_be_read_is_one_sentence(tmp_path: Path, text: str | bytes, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence) as caught:
        read_runs(write(tmp_path, text))
    assert "\n" not in str(caught.value) and "\x1b" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "cores,time\n1,3600.5\n2,1875\n",
        "procs\truntime_s\n1\t3600.5\n2\t1875\n",
        "Kerne;Laufzeit (s)\n1;3.600,5\n2;1.875,0\n",
        'procs,runtime_s\n1,"3,600.5"\n2,"1,875"\n',
        "p  wall\n1  3600.5\n2  1875\n",
        "ncpus,elapsed_min\n1,60.008333333\n2,31.25\n",
        "processors|walltime\n1|1:00:00.5\n2|0:31:15\n",
        "1,3600.5\n2,1875\n",
        "np,time_s\n1,3600.5\n4,NaN\n2,1875\n8,failed\n16,0\n",
    ],
)
def test_timings_are_read_as_they_come(tmp_path: Path, text: str) -> None:
    observations, _, notes = read_runs(write(tmp_path, text))
    rows = observations.to_pylist()
    assert [row["procs"] for row in rows] == [1, 2]
    assert [row["runtime_s_median"] for row in rows] == pytest.approx([3600.5, 1875], abs=0.51)
    assert [note for note in notes if "line 3, 5, 6" in note] or "NaN" not in text


def test_a_workbook_is_to_be_saved_as_text(tmp_path: Path) -> None:
    (tmp_path / "runs.xlsx").write_bytes(b"PK\x03\x04")
    with pytest.raises(InputError, match="save the sheet as CSV"):
        read_runs(tmp_path / "runs.xlsx")


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read_runs(tmp_path / "none.csv")
