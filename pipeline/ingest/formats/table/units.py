"""In which unit a table's numbers are where nothing declares it: from the values, and said in a sentence."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pipeline.arrays import Floats
from pipeline.errors import printable
from pipeline.ingest.formats.table.column_map import (
    DURATIONS,
    INSTANTS,
    MEMORY,
    TIME_UNITS,
    MappedColumns,
    units_of,
)
from pipeline.ingest.formats.table.values import durations, instants, is_numeric, numbers, plain

_SHORTEST_S = 1e8
"""Smaller numbers are no s since 1970 (this is March 1973), but s since the log's start."""

_EPOCHS = ((1e17, "ns"), (1e14, "us"), (1e11, "ms"))
"""Above each number of s, 1970 would be thousands of years ago: so they are of the finer unit."""

_ENOUGH = 0.9
"""Share of the jobs whose runtime is within their limit, where limits are enforced."""


@dataclass(frozen=True, slots=True)
class Units:
    """Per target the factor to the unit of JOBS (None: unknown), and sentences on what was assumed.

    has_relative_times: instants are s since the log's start, and 0 is one of them.
    """

    factors: Mapping[str, float | None]
    said: tuple[str, ...]
    has_relative_times: bool


def units_in(rows: pa.Table, mapped: MappedColumns) -> Units:
    """The units of the columns, from what is declared, and for the others from the first rows of a table."""
    factors: dict[str, float | None] = {}
    said: list[str] = []
    is_relative = False
    for target, column in mapped.columns.items():
        known = units_of(target)
        if not known or column.unit is not None or column.column == target:
            factors[target] = known[column.unit] if column.unit is not None else 1.0
        elif target in MEMORY:
            factors[target] = None
            if _numeric(rows, column.column):
                said.append(
                    f"{_named(mapped, target)} holds numbers without a unit and is left unknown; {_how(target)}"
                )
        else:
            factors[target] = 1.0
    for target in INSTANTS:
        if target in mapped.columns and _numeric(rows, mapped.columns[target].column):
            unit, relative = _epoch(rows, mapped, target)
            is_relative |= relative
            if mapped.columns[target].unit is None:
                factors[target] = TIME_UNITS[unit]
                if unit != "s":
                    said.append(f"{_named(mapped, target)} is read as {unit} since 1970; {_how(target)}")
    for target in DURATIONS:
        if target in mapped.columns and mapped.columns[target].unit is None and mapped.columns[target].column != target:
            said += _duration_unit(rows, mapped, target, factors)
    if is_relative:
        said.append("instants are small numbers: they are read as s since the log's start, which stands at 1970")
    return Units(factors, tuple(said), is_relative)


def _epoch(rows: pa.Table, mapped: MappedColumns, target: str) -> tuple[str, bool]:
    values = numbers(plain(rows[mapped.columns[target].column])).values
    values = values[np.isfinite(values) & (values > 0)]
    typical = float(np.median(values)) if len(values) else 0.0
    unit = next((unit for least, unit in _EPOCHS if typical > least), "s")
    return unit, unit == "s" and typical < _SHORTEST_S


def _duration_unit(
    rows: pa.Table, mapped: MappedColumns, target: str, factors: dict[str, float | None]
) -> list[str]:  # fmt: skip
    """Sets the factor of a duration of numbers without a unit, and says which one."""
    name = mapped.columns[target].column
    if not _numeric(rows, name):
        return []
    values = numbers(plain(rows[name])).values
    ran_s = _ran_s(rows, mapped, factors, but=target)
    if target == "runtime_s" and ran_s is not None:
        unit, why = _unit_of_runtimes(values, ran_s)
    elif target == "requested_s" and ran_s is not None:
        unit, why = _unit_of_limits(values, ran_s)
    else:
        unit, why = "s", ""
    factors[target] = TIME_UNITS[unit]
    return [f"{_named(mapped, target)} is read in {unit}{why}; {_how(target)}"]


def _ran_s(rows: pa.Table, mapped: MappedColumns, factors: Mapping[str, float | None], but: str) -> Floats | None:
    """Runtimes by start and end, or by the column of runtimes; None where neither is known."""
    if {"start_s", "end_s"} <= set(mapped.columns):
        start, end = (
            instants(
                plain(rows[mapped.columns[name].column]), factors[name] or 1.0, "UTC", day_first=False,
                zero_is_known=True,
            )[0].floats()
            for name in ("start_s", "end_s")
        )  # fmt: skip
        return end - start
    if but != "runtime_s" and "runtime_s" in mapped.columns:
        return durations(plain(rows[mapped.columns["runtime_s"].column]), factors["runtime_s"] or 1.0).values
    return None


def _unit_of_runtimes(values: Floats, ran_s: Floats) -> tuple[str, str]:
    """The unit in which the runtimes are end - start."""
    known = (values > 0) & (ran_s > 0)
    if not known.any():
        return "s", ""
    ratio = float(np.median(ran_s[known] / values[known]))
    unit = min(TIME_UNITS, key=lambda one: abs(np.log(TIME_UNITS[one] / ratio)))
    fits = abs(np.log(TIME_UNITS[unit] / ratio)) < np.log(1.1)
    return (unit, ", in which it is end - start") if fits else ("s", "")


def _unit_of_limits(values: Floats, ran_s: Floats) -> tuple[str, str]:
    """The smallest of s, min and h under which most runtimes are within the limits."""
    known = (values > 0) & (ran_s > 0)
    for unit in ("s", "min", "h") if known.any() else ():
        share = float(np.mean(ran_s[known] <= values[known] * TIME_UNITS[unit] + 60.0))
        if share >= _ENOUGH:
            return unit, f", in which {share:.0%} of the runtimes are within it"
    return "s", ""


def _numeric(rows: pa.Table, name: str) -> bool:
    return is_numeric(plain(rows[name]))


def _named(mapped: MappedColumns, target: str) -> str:
    return f"column {printable(mapped.columns[target].column, 40)} ({target})"


def _how(target: str) -> str:
    return f"declare it in the config, as ingest.columns.{target}.unit"
