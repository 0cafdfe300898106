"""Frames of pandas, polars and Arrow go in, and the same kind comes out with the same values."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import walltime as wt
from walltime.frames import arrow_of, frame_of, jobs_of

ROOT = Path(__file__).parents[3]
RUNS = {"application": ["a<b>", "a<b>", "a<b>", "c"], "procs": [4, 1, 2, 8], "runtime_s": [30.0, 100.0, 54.0, 7.0]}
KINDS = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "arrow": pa.table}


@pytest.mark.parametrize("name", KINDS)
def test_the_same_kind_comes_out(name: str) -> None:
    found = wt.observe(KINDS[name](RUNS))
    assert isinstance(found, pa.Table if name == "arrow" else KINDS[name])
    rows = arrow_of(found, "test")[0].select(["group_id", "procs", "runtime_s_median"]).to_pylist()
    assert [(row["group_id"], row["procs"], row["runtime_s_median"]) for row in rows] == [
        ("application=a<b>", 1, 100.0),
        ("application=a<b>", 2, 54.0),
        ("application=a<b>", 4, 30.0),
        ("application=c", 8, 7.0),
    ]


@pytest.mark.parametrize("name", KINDS)
def test_unknown_values_stay_unknown_on_the_way_in_and_out(name: str) -> None:
    columns = {"procs": [4, None, 2], "runtime_s": [1.5, None, 3.0], "user": ["u1", None, "u2"]}
    table, kind = arrow_of(KINDS[name](columns), "test")
    again, _ = arrow_of(frame_of(table, kind), "test")
    assert jobs_of(again, ("procs",), "test")[0].select(list(columns)).to_pydict() == columns


def test_whole_numbers_with_nulls_make_names_without_a_fraction() -> None:
    frame = pd.DataFrame({"user": [7.0, None], "procs": [1, 2]})
    assert jobs_of(arrow_of(frame, "test")[0], ("procs",), "test")[0].column("user").to_pylist() == ["7", None]


def test_a_missing_column_is_named_with_a_near_one() -> None:
    expected = "expected also the columns procs, runtime_s; rename runtime to runtime_s"
    with pytest.raises(wt.WalltimeError, match=expected):
        wt.fit(pd.DataFrame({"cores": [1], "runtime": [2.0]}))


def test_a_frame_without_starts_may_have_them_unknown() -> None:
    frame = pd.DataFrame({"procs": [1, 2], "runtime_s": [50.0, 60.0], "submit_s": [1_700_000_000, 1_700_000_500]})
    expected = r"columns start_s, end_s; where starts are unknown, add start_s and end_s with nulls\.$"
    with pytest.raises(wt.WalltimeError, match=expected):
        wt.clean(frame)
    assert wt.clean(frame.assign(start_s=None, end_s=None))["flag"].isna().all()


def test_a_reader_is_named_with_the_call_that_makes_it_a_table() -> None:
    table = pa.table({"procs": [1, 2], "runtime_s": [2.0, 1.0]})
    with pytest.raises(wt.WalltimeError, match=r"call its read_all\(\) first"):
        wt.fit(table.to_reader())


def test_attempts_of_one_job_are_told_apart_by_restart() -> None:
    frame = pd.DataFrame({"job_id": ["7", "8", "7"], "procs": [1, 2, 1], "runtime_s": [5.0, 6.0, 7.0]})
    with pytest.raises(wt.WalltimeError, match=r"found 1 rows that repeat a job_id.*in a column restart, from 0"):
        wt.observe(frame)
    assert wt.observe(frame.assign(restart=[0, 0, 1]))["n_jobs"].tolist() == [2, 1]


def test_a_column_of_jobs_is_not_the_near_name_of_another() -> None:
    frame = pd.DataFrame({"procs": [1], "runtime_s": [2.0], "submit_s": [0], "state": ["ok"], "end_time": [9]})
    with pytest.raises(wt.WalltimeError, match=r"also the columns start_s, end_s; rename end_time to end_s\.$"):
        wt.clean(frame)


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"procs": ["many"], "runtime_s": [1.0]}, "column procs with values of type"),
        ({"procs": [1.5], "runtime_s": [1.0]}, "column procs with values of type double"),
        ({"procs": [pd.Timedelta("1h")], "runtime_s": [1.0]}, "column procs with values of type duration"),
        ({"procs": [1], "runtime_s": [pd.Timestamp(0, tz="UTC")]}, "column runtime_s with values of type time"),
        (
            {"procs": [1], "runtime_s": [1.0], "submit_s": [pd.Timestamp("2026-01-01")]},
            r"submit_s with values of type timestamp.*; name their zone, in pandas by \.dt\.tz_localize",
        ),
        ({"procs": [1, 2], "runtime_s": [1.0, None]}, "1 of 2 rows without processors"),
        ({"procs": [1], "runtime_s": [0.0]}, "1 of 1 rows without processors"),
        ({"procs": [], "runtime_s": []}, "0 of 0 rows"),
    ],
)
def test_wrong_values_are_one_sentence(columns: dict[str, list[Any]], expected: str) -> None:
    with pytest.raises(wt.WalltimeError, match=expected):
        wt.observe(pd.DataFrame(columns))


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("name", KINDS)
def test_times_with_a_zone_and_durations_become_seconds(name: str, unit: str) -> None:
    a_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    times = pa.array([-3 * a_second // 2, None, 1_774_751_400 * a_second])
    columns = {
        "submit_s": times.cast(pa.timestamp(unit, "Europe/Oslo")),
        "runtime_s": pa.array([90_000, None, 1_500], pa.int64()).cast(pa.duration("ms")).cast(pa.duration("ns")),
        "procs": pa.array([1, 1, 1]),
    }
    table = pa.table(columns)
    frame = {"pandas": pa.Table.to_pandas, "polars": pl.from_arrow, "arrow": lambda one: one}[name](table)
    jobs = jobs_of(arrow_of(frame, "test")[0], ("procs",), "test")[0]
    found = sorted(zip(jobs["submit_s"].to_pylist(), jobs["runtime_s"].to_pylist(), strict=True), key=str)
    assert found == [(-2, 90.0), (1_774_751_400, 1.5), (None, None)]


@pytest.mark.parametrize("frame", [RUNS, [1, 2], None, pl.LazyFrame(RUNS)])
def test_what_is_no_frame_is_refused(frame: object) -> None:
    with pytest.raises(wt.WalltimeError, match="a data frame of pandas or polars"):
        wt.observe(frame)


def test_rows_with_a_flag_are_left_out() -> None:
    frame = pd.DataFrame({"procs": [1, 2], "runtime_s": [5.0, None], "flag": [None, "never_ran"]})
    assert wt.observe(frame)["procs"].tolist() == [1]


def test_an_import_is_fast_and_loads_no_library_of_frames() -> None:
    spared = {"pandas", "polars", "pyarrow", "numpy", "pipeline", "flows"}
    script = f"import sys, walltime; print(*({spared} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "\n"


def test_the_interface_leaves_the_environment_as_it_is() -> None:
    script = "import os; before = dict(os.environ); import walltime as wt; wt.fit, wt.replay, wt.backtest\n"
    script += "print(sorted(set(os.environ) - set(before)))"
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT", "DO_NOT"))}
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, env=clean, capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def test_every_public_name_is_there_and_documented() -> None:
    assert set(wt.__all__) <= set(dir(wt))
    for name in set(wt.__all__) - {"__version__"}:
        assert getattr(wt, name).__doc__, name
    with pytest.raises(AttributeError, match="no attribute 'predicted'"):
        _ = wt.predicted  # type: ignore[attr-defined]
