"""Every column of every table, declared once in columns.tsv: name, type, unit, whether it is ever null, least, meaning.

`least` is the least value, or `>0` for values that are above 0 where they are published. A name such as `phases/share`
is a column `share` whose meaning differs from that of other tables.
"""

from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from pipeline.arrays import CATEGORY
from pipeline.schema import Column

LEVELS = (10, 50, 80, 90, 95, 99)
"""The quantiles of estimates, %."""

QUANTILES = tuple(f"runtime_s_q{level}" for level in LEVELS)
RATIOS = tuple(f"ratio_q{level}" for level in LEVELS)
INTERVALS = ("runtime_s", "runtime_s_lo80", "runtime_s_hi80", "runtime_s_lo95", "runtime_s_hi95")

_TYPES = {
    "text": pa.string(),
    "category": CATEGORY,
    "integer": pa.int64(),
    "real": pa.float64(),
    "boolean": pa.bool_(),
}


def _declared() -> Iterator[tuple[str, Column]]:
    """The columns of the file by their names there; a type in the plural is a list."""
    for line in Path(__file__).with_name("columns.tsv").read_text("utf-8").splitlines()[1:]:
        if not line.startswith("#"):
            name, kind, unit, null, least, meaning = line.split("\t")
            of = _TYPES.get(kind) or pa.list_(pa.field("element", _TYPES[kind.removesuffix("s")]))
            bounds = {"is_positive": True} if least == ">0" else {"minimum": float(least)} if least else {}
            yield name, Column(name.rpartition("/")[2], of, meaning, unit or None, null == "never", **bounds)


COLUMNS = dict(_declared())

ASCENDING = (
    ("first_start_s", "last_end_s"),
    ("procs_min", "procs_max"),
    ("runtime_s_q10", "runtime_s_median", "runtime_s_q90"),
    ("runtime_s_lo95", "runtime_s_lo80", "runtime_s", "runtime_s_hi80", "runtime_s_hi95"),
    QUANTILES,
    RATIOS,
)
"""Columns of one table whose values ascend in every row, where they are there; checked before publishing."""

TEMPLATE_COLUMNS = (
    "user",
    "user_group",
    "account",
    "application",
    "queue",
    "partition",
    "qos",
    "problem_size",
    "requested_s",
    "requested_mem_kib",
    "requested_memory",
    "job_name",
    "procs",
)
"""Columns a similarity template may name."""


def columns(*names: str, never_null: Collection[str] = ()) -> tuple[Column, ...]:
    """The declared columns of these names, in the given order; some that other tables leave null never are here."""
    unknown = sorted(set(never_null) - set(names))
    if unknown:
        raise ValueError(f"never_null names {', '.join(unknown)}, expected columns of the table")
    return tuple(replace(COLUMNS[name], is_required=True) if name in never_null else COLUMNS[name] for name in names)
