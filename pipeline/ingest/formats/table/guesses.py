"""How each column of a table is read: its unit, its zone and the order of its dates, checked against the other columns.

A guess from a name stands only where the rows do not contradict it. What speaks for it and against it is kept, for the
notes and for `walltime ingest --dry-run`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.arrays import Bools, Floats
from pipeline.errors import printable
from pipeline.ingest.formats.table import column_map, values
from pipeline.ingest.formats.table.column_map import GUESSED, TIME_UNITS, TRES, MappedColumns
from pipeline.ingest.spans import Typed
from pipeline.settings import IngestSettings, LogColumn, SiteSettings

_SHORTEST_S = 1e8
"""Smaller numbers are no s since 1970 (this is March 1973), but s since the log's start."""

_EPOCHS = ((1e17, "ns"), (1e14, "us"), (1e11, "ms"))
"""Above each number of s, 1970 would be thousands of years ago: so they are of the finer unit."""

_ENOUGH = 0.9
"""Share of the jobs whose runtime is within their limit, where limits are enforced."""

_FEW = 10
"""Fewer rows than this do not show that what is called a limit is a runtime."""

_STORED = {
    TRES: " as a list of Slurm's resources", column_map.WAIT: " as a status of wait(2)",
    column_map.SLURM: " as a number of slurm.h",
}  # fmt: skip
_DATE = r"^\s*(?P<first>\d{1,2})[./](?P<second>\d{1,2})[./]\d{4}"
_MONTHS = 12


@dataclass(frozen=True, slots=True)
class Column:
    """One column that is read. factor: to the unit of JOBS (None: unknown); notes: for and against the guess."""

    target: str
    said: LogColumn
    known_by: str
    zone: str
    factor: float | None
    day_first: bool = False
    zero_is_known: bool = False
    unit: str = ""
    reasons: tuple[str, ...] = ()
    objections: tuple[str, ...] = ()

    @property
    def shown(self) -> str:
        """The column and what it is taken for."""
        return f"column {printable(self.said.column, 40)} ({self.target})"

    def array(self, rows: pa.Table) -> pa.Array:
        """The values as they came."""
        return values.plain(rows[self.said.column])

    def typed(self, rows: pa.Table) -> Typed:
        """The values in the unit of JOBS."""
        array, factor = self.array(rows), 1.0 if self.factor is None else self.factor
        if self.target in column_map.INSTANTS:
            facts = {"day_first": self.day_first, "zero_is_known": self.zero_is_known}
            return values.instants(array, factor, self.zone, **facts)
        if self.target in column_map.MEMORY:
            return values.memory(array, self.factor)
        if self.target in column_map.EXIT_CODES:
            return values.exit_codes(array, is_status=self.said.unit == column_map.WAIT)
        if self.target not in column_map.COUNTS:
            return values.durations(array, factor)
        if self.said.unit == TRES:
            return values.resources(array, self.target)
        return values.gpus(array, factor) if self.target == "gpus" else values.counts(array, factor)

    def numbers(self, rows: pa.Table) -> Floats | None:
        """The values as numbers, NaN where unknown; None where most are none."""
        array = self.array(rows)
        return values.numbers(array).floats() if values.is_numeric(array) else None

    def is_number(self, rows: pa.Table) -> bool:
        """Whether the values are numbers of which neither the settings nor their name say the unit."""
        is_free = self.said.unit is None and self.said.column != self.target
        return is_free and values.is_numeric(self.array(rows))

    def sentence(self) -> str:
        """What it is taken for, on what evidence, and what speaks against it."""
        unit = self.said.unit or self.unit
        shown = _STORED.get(unit, f" in {unit}" if unit else "")
        how = "; ".join(("guessed from its name" if self.known_by == GUESSED else self.known_by, *self.reasons))
        but = "".join(f"; but {one}" for one in self.objections)
        return f"{self.target} = {printable(self.said.column, 60)}{shown} ({how}{but})"


@dataclass(slots=True)
class Guesses:
    """The columns of a table by target, and sentences on what was assumed or rejected.

    rows: the first of the table, by which guesses are checked.
    """

    rows: pa.Table
    columns: dict[str, Column]
    said: list[str] = field(default_factory=list)

    def span(self, first: str, last: str) -> Floats | None:
        """Seconds from one instant to another; None where the table has not both."""
        both = [self.columns[name] for name in (first, last) if name in self.columns]
        if len(both) < 2:
            return None
        return both[1].typed(self.rows).floats() - both[0].typed(self.rows).floats()

    def change(self, target: str, reason: str = "", objection: str = "", **changes: object) -> None:
        """Note what speaks for or against a column, with what follows from it."""
        old = self.columns[target]
        reasons, objections = (*old.reasons, *filter(None, [reason])), (*old.objections, *filter(None, [objection]))
        self.columns[target] = replace(old, reasons=reasons, objections=objections, **changes)  # type: ignore[arg-type]

    def reject(self, target: str, why: str) -> None:
        """Take no column for this target."""
        column = self.columns.pop(target)
        self.said.append(f"column {printable(column.said.column, 40)} is not taken for {target}: {why}")


def guesses(
    rows: pa.Table, mapped: MappedColumns, site: SiteSettings, settings: IngestSettings, orders: Sequence[int] = (0, 0)
) -> Guesses:
    """How the columns are read, from what is declared, and for the others from the first rows of a table.

    orders: how many dates of the table can only be read day first, and month first.
    """
    found = Guesses(rows, {})
    for target, said in mapped.columns.items():
        is_unknown = target in column_map.MEMORY and said.unit is None and said.column != target
        factor = column_map.units_of(target).get(said.unit or "", None if is_unknown else 1.0)
        found.columns[target] = Column(target, said, mapped.known_by[target], said.timezone or site.timezone, factor)
    _reject_unreadable(found)
    _set_epochs(found)
    _set_date_order(found, dates_in(rows, mapped), settings, *orders)
    ran_s = found.span("start_s", "end_s")
    if ran_s is not None and "suspended_s" in found.columns:
        ran_s -= np.nan_to_num(found.columns["suspended_s"].typed(rows).floats())
    _set_span(found, "runtime_s", ran_s, "end - start")
    _set_limit(found, ran_s)
    _set_span(found, "wait_s", found.span("submit_s", "start_s"), "start - submit")
    _set_span(found, "suspended_s", None, "")
    _set_span(found, "cpu_s", None, "")
    _check_order(found)
    for target, column in found.columns.items():
        if target in column_map.MEMORY and column.factor is None and column.numbers(rows) is not None:
            found.said.append(f"{column.shown} holds numbers without a unit and is left unknown; {_how(target)}")
        if target == "gpus" and column.said.unit == TRES:
            found.said.append("resource 1001 of slurmdbd is read as GPUs; see `sacctmgr show tres` whether it is")
        found.said += [f"{column.shown} is a guess, but {one}" for one in column.objections]
    return found


def _reject_unreadable(found: Guesses) -> None:
    """Reject guesses that most of their values contradict; what tells when jobs ran is read all the same."""
    counted = (*column_map.COUNTS, *column_map.DURATIONS[1:], *column_map.MEMORY, "energy_j")
    for target, column in list(found.columns.items()):
        if column.known_by != GUESSED or target not in ("submit_s", *counted):
            continue
        typed = column.typed(found.rows)
        n_bad, n_known = int(typed.invalid.sum()), int((~typed.missing).sum())
        if target in counted and n_bad > n_known:
            found.reject(target, f"{n_bad:,} of {n_bad + n_known:,} values are of another kind")
        elif target == "submit_s" and len(typed.values) and not n_bad + n_known:
            found.reject(target, "none of its values is known")


def _set_epochs(found: Guesses) -> None:
    """The unit of instants that are numbers, by their size; small ones are s since the log's start."""
    is_relative = False
    for target in [name for name in column_map.INSTANTS if name in found.columns]:
        numbers = found.columns[target].numbers(found.rows)
        if numbers is None:
            continue
        known = numbers[numbers > 0]
        typical = float(np.median(known)) if len(known) else 0.0
        unit = next((unit for least, unit in _EPOCHS if typical > least), "s")
        is_relative |= unit == "s" and typical < _SHORTEST_S
        if found.columns[target].said.unit is None:
            found.change(target, f"its numbers are near {typical:.3g}", factor=TIME_UNITS[unit], unit=unit)
            if unit != "s":
                found.said.append(f"{found.columns[target].shown} is read as {unit} since 1970; {_how(target)}")
    if is_relative:
        found.said.append("instants are small numbers: they are read as s since the log's start, which stands at 1970")
        for target in found.columns.keys() & set(column_map.INSTANTS):
            found.change(target, zero_is_known=True)


def dates_in(rows: pa.Table, mapped: MappedColumns) -> list[str]:
    """The columns of instants with dates as 02.03.2026 or 2/3/2026, in which day and month look alike."""
    names = {mapped.columns[target].column for target in column_map.INSTANTS if target in mapped.columns}
    return [name for name in sorted(names) if len(_date_parts(rows, name)[0])]


def _date_parts(rows: pa.Table, name: str) -> tuple[pa.Array, pa.Array]:
    """The first and the second number of such dates."""
    array = values.plain(rows[name])
    texts = array if pa.types.is_string(array.type) else pa.array([], pa.string())
    found = pc.extract_regex(texts, _DATE).drop_null()
    return found.field(0).cast(pa.int64()), found.field(1).cast(pa.int64())


def date_orders(tables: Iterable[pa.Table], names: Sequence[str]) -> tuple[int, int]:
    """How many dates of some columns can only be read day first, and how many only month first."""
    n_above = np.zeros(2, np.int64)
    for rows in tables:
        for name in names:
            n_above += [pc.sum(pc.greater(part, _MONTHS)).as_py() or 0 for part in _date_parts(rows, name)]
    return int(n_above[0]), int(n_above[1])


def _set_date_order(
    found: Guesses, names: Sequence[str], settings: IngestSettings, n_day_first: int, n_month_first: int
) -> None:
    """The order of day and month, of all dates of a table; with dots the day is first where nothing tells."""
    if not names:
        return
    texts = values.plain(found.rows[names[0]])
    mark = "." if pc.any(pc.match_substring_regex(texts, values.DOTTED)).as_py() else "/"
    if "day_first" in settings.model_fields_set:
        day_first, why = settings.day_first, "as ingest.day_first says"
    elif n_day_first == n_month_first:
        day_first = mark == "."
        why = "but no date of the table tells the order: set ingest.day_first if this is wrong"
    else:
        day_first, (n_other, n_for) = n_day_first > n_month_first, sorted((n_day_first, n_month_first))
        why = f"as {n_for:,} dates can only be read so, and {n_other:,} only the other way"
    order = f"{'day' if day_first else 'month'} first"
    found.said.append(f"dates such as 02{mark}03{mark}2026 are read {order}, {why}")
    for target in found.columns.keys() & set(column_map.INSTANTS):
        if found.columns[target].said.column in names:
            found.change(target, order, day_first=day_first)


def _set_span(found: Guesses, target: str, span_s: Floats | None, span: str) -> None:
    """The unit of a duration that two instants tell as well; a runtime that contradicts them may be the limit."""
    if target not in found.columns:
        return
    column, unit, n_same, n_known = found.columns[target], "s", 0, 0
    took = column.typed(found.rows).floats()
    if span_s is not None:
        known = (took > 0) & (span_s > 0)
        n_known = int(known.sum())
        if n_known and column.is_number(found.rows):
            ratio = np.log(float(np.median(span_s[known] / took[known])))
            nearest = min(TIME_UNITS, key=lambda one: abs(np.log(TIME_UNITS[one]) - ratio))
            unit = nearest if abs(np.log(TIME_UNITS[nearest]) - ratio) < np.log(1.1) else "s"
        n_same = int(_same(took[known] * TIME_UNITS[unit], span_s[known]).sum())
    is_confirmed = 2 * n_same >= n_known
    if not is_confirmed and target == "runtime_s" and column.known_by == GUESSED and _is_limit(found, span_s):
        return
    reason = f"it is {span} in {n_same:,} of {n_known:,} rows" if n_known else "no other column confirms it"
    found.change(target, *((reason,) if is_confirmed else ("", f"{reason} only")))
    if column.is_number(found.rows):
        found.change(target, factor=TIME_UNITS[unit], unit=unit)
        tail = f", in which it is {span}" if n_known and is_confirmed else ""
        found.said.append(f"{column.shown} is read in {unit}{tail}; {_how(target)}")


def _same(took_s: Floats, span_s: Floats) -> Bools:
    """Whether durations are the same, up to their rounding."""
    step_s = 60.0 if not np.any(span_s % 60) else 2.0
    return np.abs(took_s - span_s) <= step_s + 0.01 * span_s


def _is_limit(found: Guesses, ran_s: Floats | None) -> bool:
    """Whether what was taken for a runtime is a limit, as `walltime` often is; then it is no runtime any more."""
    as_limit = replace(found.columns["runtime_s"], target="requested_s")
    _, share = _limit_unit(as_limit, found.rows, ran_s)
    if share < _ENOUGH:
        return False
    found.reject("runtime_s", f"it is not end - start, and {share:.0%} of the jobs end within it, as within a limit")
    found.columns.setdefault("requested_s", as_limit)
    return True


def _set_limit(found: Guesses, ran_s: Floats | None) -> None:
    """The unit of the limit: the smallest of s, min and h under which most runtimes are within it."""
    if "requested_s" not in found.columns:
        return
    column = found.columns["requested_s"]
    if ran_s is None and "runtime_s" in found.columns:
        ran_s = found.columns["runtime_s"].typed(found.rows).floats()
    unit, share = _limit_unit(column, found.rows, ran_s)
    why = "no other column confirms it" if np.isnan(share) else f"{share:.0%} of the runtimes are within it"
    if column.known_by == GUESSED and ran_s is not None:
        limit_s = column.typed(found.rows).floats() * TIME_UNITS[unit]
        known = (limit_s > 0) & (ran_s > 0)
        n_same = int(_same(limit_s[known], ran_s[known]).sum())
        if known.sum() >= _FEW and n_same > _ENOUGH * known.sum():
            found.reject("requested_s", f"it is the runtime in {n_same:,} of {int(known.sum()):,} rows, and no limit")
            return
    found.change("requested_s", *(("", f"only {why}") if share < _ENOUGH else (why,)))
    if column.is_number(found.rows):
        found.change("requested_s", factor=TIME_UNITS[unit], unit=unit)
        tail = f", in which {why}" if share >= _ENOUGH else ""
        found.said.append(f"{column.shown} is read in {unit}{tail}; {_how('requested_s')}")


def _limit_unit(column: Column, rows: pa.Table, ran_s: Floats | None) -> tuple[str, float]:
    """The unit of a limit (before it is set), and the share of the runtimes within it; NaN where none is known."""
    limit = column.typed(rows).floats()
    known = (limit > 0) & (ran_s > 0) if ran_s is not None else np.zeros(len(limit), np.bool_)
    if ran_s is None or not known.any():
        return "s", np.nan
    units = ("s", "min", "h") if column.is_number(rows) else ("s",)
    shares = {unit: float(np.mean(ran_s[known] <= limit[known] * TIME_UNITS[unit] + 60.0)) for unit in units}
    unit = next((unit for unit, share in shares.items() if share >= _ENOUGH), "s")
    return unit, shares[unit]


_ORDERED = (
    ("submit_s", "eligible_s"), ("submit_s", "start_s"), ("submit_s", "end_s"), ("start_s", "end_s"),
    ("nodes", "procs"), ("requested_nodes", "requested_procs"),
)  # fmt: skip
"""Pairs of which the first is never more than the second."""


def _check_order(found: Guesses) -> None:
    """Say where columns are in another order than they must be; a submit that is later than most starts is none."""
    for low, high in _ORDERED:
        if low not in found.columns or high not in found.columns:
            continue
        first, second = (found.columns[name].typed(found.rows).floats() for name in (low, high))
        known = ~np.isnan(first) & (second > 0)
        n_known, n_right = int(known.sum()), int((first[known] <= second[known]).sum())
        count = f"not above {high} in {n_right:,} of {n_known:,} rows"
        if 2 * n_right >= n_known:
            found.change(low, count if n_known else "")
        elif low == "submit_s" and found.columns[low].known_by == GUESSED:
            found.reject(low, f"it is {count}")
        elif found.columns[low].known_by == GUESSED or found.columns[high].known_by == GUESSED:
            found.change(low, objection=f"it is {count}")


def _how(target: str) -> str:
    return f"declare it in the config, as ingest.columns.{target}.unit"
