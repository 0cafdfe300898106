"""Contracts: between releases only tables and nullable columns are added, and every other change is named."""

from dataclasses import replace
from itertools import pairwise

import pyarrow as pa
import pytest

from pipeline import RELEASE
from pipeline.errors import TableError
from pipeline.schema import Column, TableKind
from pipeline.tables import ESTIMATES, GROUPS, OBSERVATIONS, TABLES
from tests.unit.publish.versions_of_tables import observations
from tools.table_contract import breaches, contract_of, contract_text, released_contracts


def test_between_releases_only_nullable_columns_are_added() -> None:
    releases = released_contracts()
    assert releases and RELEASE in {one["release"] for one in releases.values()}
    chain = [*(one["tables"] for one in releases.values()), contract_of(TABLES.values())]
    broken = [sentence for before, after in pairwise(chain) for sentence in breaches(before, after)]
    assert broken == [], "restore the declaration"


def changed(**columns: object) -> dict[str, object]:
    """The contract of OBSERVATIONS with some columns changed; None removes one."""
    plain = contract_of([OBSERVATIONS])
    for name, change in columns.items():
        if change is None:
            del plain["observations"]["columns"][name]
        else:
            plain["observations"]["columns"][name] = plain["observations"]["columns"].get(name, {}) | change
    return plain


@pytest.mark.parametrize(
    ("after", "sentence"),
    [
        ({}, "table observations is gone"),
        (changed(log_sd=None), "table observations: column log_sd is gone"),
        (changed(log_sd={"type": "int64"}), "table observations: column log_sd: type double has become int64"),
        (changed(log_sd={"unit": None}), "table observations: column log_sd: unit log s has become None"),
        (changed(procs={"nullable": True}), "table observations: column procs: nullable False has become True"),
        (changed(log_sd={"nullable": False}), "table observations: column log_sd: nullable True has become False"),
        (
            changed(new={"type": "int64", "unit": None, "nullable": False}),
            "table observations: column new was added and is not nullable",
        ),
        (
            contract_of([replace(OBSERVATIONS, key=("group_id",))]),
            "table observations: the key (group_id, procs) has become (group_id)",
        ),
    ],
)
def test_every_breach_is_named(after: dict[str, object], sentence: str) -> None:
    assert breaches(contract_of([OBSERVATIONS]), after) == [sentence]


def test_added_tables_and_nullable_columns_break_nothing() -> None:
    grown = TableKind(
        OBSERVATIONS.name,
        (*OBSERVATIONS.columns, Column("more", pa.float64(), "More.")),
        OBSERVATIONS.key,
        OBSERVATIONS.meaning,
    )
    in_key = replace(grown, key=(*grown.key, "more"))
    for kind in (grown, in_key):
        assert breaches(contract_of([OBSERVATIONS]), contract_of([kind, GROUPS])) == []
    shrunk = breaches(contract_of([in_key]), contract_of([grown]))
    assert shrunk == ["table observations: the key (group_id, procs, more) has become (group_id, procs)"]


def test_hostile_names_are_escaped() -> None:
    plain = {"a\x1b[2J\u202e": {"key": [], "columns": {}}}
    assert breaches(plain, {}) == ["table a\\x1b[2J\\u202e is gone"]


def test_the_text_of_the_contract_is_the_same_every_time() -> None:
    assert contract_text() == contract_text() and contract_text().isascii()


def test_a_key_has_no_nulls_but_where_a_null_means_any() -> None:
    kinds = TABLES.values()
    nullable = {kind.name: {c.name for c in kind.columns if c.name in kind.key and not c.is_required} for kind in kinds}
    assert nullable.pop("estimates") == {"who", "what", "queue", "requested_s", "procs", "gpus", "gpu_type"}
    assert nullable.pop("memory") == {"who", "what", "queue", "requested_mem_kib", "procs", "gpus", "gpu_type"}
    assert nullable.pop("backtest") == {"stale_days", "learnt_from", "part_value"}
    assert nullable.pop("backtest_errors") == {"cluster", "stale_days"}
    assert nullable.pop("jobs") == nullable.pop("errors") == {"cluster"}
    assert nullable.pop("replay") == {"correction", "part_value"}
    assert nullable.pop("unreadable") == {"byte_offset"}
    assert nullable.pop("waste") == {"name"}
    assert nullable.pop("advice") == {"who", "what", "gpus", "gpu_type"}
    assert set().union(*nullable.values()) == set()
    assert ESTIMATES.key


def test_a_null_in_a_column_that_has_none_is_refused_at_the_write() -> None:
    table = observations([4.0, 5.0])
    OBSERVATIONS.check(table)
    hole = table.set_column(0, "group_id", [["g0", None]])
    with pytest.raises(TableError, match="1 nulls in column group_id"):
        OBSERVATIONS.check(hole)
