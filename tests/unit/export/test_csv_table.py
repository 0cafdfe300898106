"""ESTIMATES as CSV: every row comes back, and no cell is a formula."""

import csv
import io

import pyarrow as pa
import pytest

from pipeline.errors import printable
from pipeline.export.scheduler_files import PublishedTables, csv_files
from pipeline.settings import ExportSettings
from pipeline.tables import ESTIMATES

FORMULAS = ("=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", " =1", "'=1", "|calc", "%x", '=HYPERLINK("a","b")')
PLAIN = ("ada", "a,b", 'say "x"', "two\nlines", "größe", "1e5")


def table_of(names: tuple[str, ...]) -> pa.Table:
    n = len(names)
    numbers = {
        c.name: [1.5] * n for c in ESTIMATES.columns if c.name.startswith("runtime_s") or c.name == "n_effective"
    }
    return ESTIMATES.build(
        site=["here"] * n, template=["who"] * n, chain_rank=[6] * n, who=list(names), n_jobs=[3] * n,
        newest_end_s=[9] * n, run_id=["r"] * n, **numbers,
    )  # fmt: skip


def read_back(names: tuple[str, ...]) -> list[dict[str, str]]:
    tables = PublishedTables(table_of(names))
    text = csv_files(tables, ExportSettings())["walltime.csv"]
    return list(csv.DictReader(io.StringIO(text.decode("utf-8"), newline="")))


@pytest.mark.parametrize("name", FORMULAS)
def test_a_formula_becomes_a_text(name: str) -> None:
    (row,) = read_back((name,))
    assert row["who"] == f"'{printable(name)}"


def test_plain_values_come_back_and_null_is_empty() -> None:
    rows = read_back(PLAIN)
    assert [row["who"] for row in rows] == [printable(name) for name in PLAIN]
    assert {(row["runtime_s_q50"], row["queue"], row["n_jobs"]) for row in rows} == {("1.5", "", "3")}
    assert list(rows[0]) == [column.name for column in ESTIMATES.columns]
