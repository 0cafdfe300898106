"""Which column of a table holds what, and how it is read: declared by the settings, told by a public set, or guessed.

A guess from a name stands only where the rows do not contradict it. What was assumed of a unit, and what speaks for it,
is said in the notes. The names, units and public sets are data: names.toml.
"""

import re
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.arrays import Bools, Floats, median, one_piece
from pipeline.errors import InputError, did_you_mean, printable
from pipeline.ingest.raw_table import (
    CATEGORIES,
    COUNTS,
    DURATIONS,
    EXIT_CODES,
    INSTANTS,
    MEMORY,
    TEXTS,
    TRES,
    WAIT,
    Column,
    is_numeric,
    numbers,
)
from pipeline.ingest.values import first_known
from pipeline.settings import IngestSettings, LogColumn, SiteSettings

TARGETS = (*INSTANTS, *DURATIONS, *COUNTS, *EXIT_CODES, *MEMORY, "energy_j", *CATEGORIES, *TEXTS)
"""What a column of a table may hold: columns of JOBS, texts that rules read, and `wait_s`, from submit to start (s)."""

SLURM = "slurm"
"""How slurmdbd stores states: as numbers."""

GUESSED, DECLARED = "guessed", "declared"


@cache
def known_names() -> Mapping[str, Any]:
    """What names.toml holds."""
    return tomllib.loads(Path(__file__).with_name("names.toml").read_text(encoding="utf-8"))


def units_of(target: str) -> Mapping[str, float]:
    """The units of values in the column for this target, each as a factor to JOBS's own; none for texts."""
    groups = {"time": (*INSTANTS, *DURATIONS), "memory": MEMORY, "count": COUNTS, "exit_code": EXIT_CODES}
    group = next((group for group, targets in groups.items() if target in targets), target)
    return dict(known_names()["factors"].get(group, {}))


TIME_UNITS = units_of(INSTANTS[0])


@cache
def public_sets() -> Mapping[str, tuple[frozenset[str], Mapping[str, LogColumn]]]:
    """By name the columns that tell a public set, which no other table has together, and what its columns hold."""
    return {
        one["name"]: (
            frozenset(one["told_by"].split()),
            {
                target: LogColumn.model_validate({"column": said} if isinstance(said, str) else said)
                for target, said in one["columns"].items()
            },
        )
        for one in known_names()["public_sets"]
    }


def public_set(names: Collection[str]) -> str | None:
    """The name of the set that these column names tell; None where they are of none."""
    return next((name for name, (told_by, _) in public_sets().items() if told_by <= set(names)), None)


@dataclass(frozen=True, slots=True)
class KnownColumn(Column):
    """A column, and how it is known: known_by is DECLARED, GUESSED or the name of a public set.

    has_unit: whether the settings or its name say the unit of its numbers.
    """

    known_by: str = DECLARED
    has_unit: bool = False

    @property
    def shown(self) -> str:
        """The column and what it is taken for."""
        return f"column {printable(self.name, 40)} ({self.target})"

    def numbers(self, rows: pa.Table) -> Floats | None:
        """The values as numbers, NaN where unknown; None where most are none."""
        array = one_piece(rows[self.name])
        return numbers(array).floats() if is_numeric(array) else None

    def is_number(self, rows: pa.Table) -> bool:
        """Whether the values are numbers of which neither the settings nor their name say the unit."""
        return not self.has_unit and self.name != self.target and is_numeric(one_piece(rows[self.name]))

    def sentence(self) -> str:
        """What it is taken for, and who says so."""
        shown = _STORED.get(self.unit, f" in {self.unit}" if self.unit else "")
        how = "guessed from its name" if self.known_by == GUESSED else self.known_by
        return f"{self.target} = {printable(self.name, 60)}{shown} ({how})"


Columns = dict[str, KnownColumn]
"""By target."""


def _known(target: str, said: LogColumn, known_by: str) -> KnownColumn:
    is_unknown = target in MEMORY and said.unit is None and said.column != target
    factor = units_of(target).get(said.unit or "", None if is_unknown else 1.0)
    # Slurm's terms by word, and where slurmdbd stores numbers, by number.
    data, numbered = known_names(), known_names()["slurm_states"] if said.unit == SLURM else ()
    states = {word: state for state, words in data["states"].items() for word in words.split()}
    states |= {str(number): state for number, state in enumerate(numbered)}
    per = said.per or ("processor" if said.column == target else "job")
    return KnownColumn(
        target, said.column, factor, said.unit or "", per, said.times, said.timezone or "",
        states=states if target == "state" else {}, known_by=known_by, has_unit=said.unit is not None,
    )  # fmt: skip


def used(columns: Columns) -> list[str]:
    """The columns of the table that are read."""
    names = (name for one in columns.values() for name in (one.name, one.times) if name is not None)
    return list(dict.fromkeys(names))


def lacks(columns: Columns) -> tuple[str, ...]:
    """What it takes to tell when jobs ran, or for how long, and is not there."""
    when = () if columns.keys() & {"submit_s", "start_s", "end_s"} else ("submit_s, start_s or end_s",)
    how_long = "runtime_s" in columns or {"start_s", "end_s"} <= columns.keys()
    return (*when, *(() if how_long else ("runtime_s or both start_s and end_s",)))


def is_log(columns: Columns) -> bool:
    """Whether they tell when jobs ran and for how long, and anything else that only a job has."""
    return not lacks(columns) and bool({"job_id", "submit_s", "requested_s", *COUNTS} & columns.keys())


def mapped_columns(names: Sequence[str], settings: IngestSettings, where: str) -> Columns:
    """The map for a table with these columns; InputError where a declared column is not there, or one that is needed.

    What the settings declare comes first, then the map of a public set, and without such a set guesses from names.
    """
    declared = {target: _declared(target, said, names, where) for target, said in settings.columns.items()}
    found = guessed(names, declared)
    if error := lacking(found, names, where):
        raise error
    return found


def lacking(found: Columns, names: Sequence[str], where: str) -> InputError | None:
    """The error that names what is missing where a map does not tell when jobs ran, or for how long."""
    listed = ", ".join(printable(name, 40) for name in names[:12]) or "none"
    expected = f"columns for {', and for '.join(lacks(found))}"
    do = 'with --format table, name them in the config, as in [ingest.columns] submit_s = "time of submit"'
    return InputError(where, f"the columns {listed}", expected, do) if lacks(found) else None


def guessed(names: Sequence[str], declared: Mapping[str, LogColumn] | None = None) -> Columns:
    """The map that names tell, with what is declared."""
    columns = {target: _known(target, said, DECLARED) for target, said in (declared or {}).items()}
    public = public_set(names)
    taken = {column.name for column in columns.values()}
    for target, said in public_sets()[public][1].items() if public else _by_name(names):
        if target not in columns and said.column in names and (public or said.column not in taken):
            columns[target] = _known(target, said, public or GUESSED)
            taken |= set() if public else {said.column}
    return columns


def _by_name(names: Sequence[str]) -> list[tuple[str, LogColumn]]:
    """Per target the column whose name is the surest."""
    plain = {name: _words(name) for name in names}
    found: list[tuple[str, LogColumn]] = []
    for target, known in known_names()["names"].items():
        ranks = {word: rank for rank, word in enumerate(known.split())}
        fits = [(ranks[word], name, unit) for name in names for word, unit in plain[name] if word in ranks]
        if fits:
            _, name, unit = min(fits, key=lambda fit: fit[0])
            found.append((target, LogColumn(column=name, unit=unit if unit in units_of(target) else None)))
    return found


def _words(name: str) -> list[tuple[str, str | None]]:
    """A column's name in small letters joined by underscores; also without the unit it ends with, and that unit."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.strip())
    word = re.sub(r"[^a-z0-9]+", "_", spaced.lower()).strip("_")
    stem, _, last = word.rpartition("_")
    unit = next((unit for unit, words in known_names()["units"].items() if last in words.split()), None)
    plain: list[tuple[str, str | None]] = [(word, None), (word.replace("_", ""), None)]
    return [*plain, (stem, unit)] if stem and unit else plain


def _declared(target: str, said: LogColumn | str | int, names: Sequence[str], where: str) -> LogColumn:
    """The column that the settings name; InputError where the target, the column or the unit is not known."""
    setting = f"ingest.columns.{printable(target)}"
    if target not in TARGETS:
        do = did_you_mean(target, TARGETS, otherwise="correct or remove it")
        raise InputError(setting, "an unknown name", f"one of {', '.join(TARGETS)}", do)
    if isinstance(said, int):
        if not 1 <= said <= len(names):
            raise InputError(setting, f"column {said}", f"a number from 1 to {len(names)}, the columns of {where}")
        return LogColumn(column=names[said - 1])
    column = LogColumn(column=said) if isinstance(said, str) else said
    for name in (column.column, column.times):
        if name is not None and name not in names:
            listed = ", ".join(printable(one, 40) for one in names[:12])
            do = did_you_mean(name, names, otherwise="correct the name")
            raise InputError(setting, f"{printable(repr(name))}, no column of {where}", f"one of {listed}", do)
    units = units_of(target)
    if column.unit is not None and column.unit not in units:
        expected = f"one of {', '.join(units)}" if units else "no unit"
        raise InputError(f"{setting}.unit", printable(repr(column.unit)), expected)
    return column


_SHORTEST_S = 1e8
"""Smaller numbers are no s since 1970 (this is March 1973), but s since the log's start."""

_EPOCHS = ((1e17, "ns"), (1e14, "us"), (1e11, "ms"))
"""Above each number of s, 1970 would be thousands of years ago: so they are of the finer unit."""

_ENOUGH = 0.9
"""Share of the jobs whose runtime is within their limit, where limits are enforced."""

_FEW = 10
"""Fewer rows than this do not show that what is called a limit is a runtime."""

_STORED = {
    TRES: " as a list of Slurm's resources", WAIT: " as a status of wait(2)",
    SLURM: " as a number of slurm.h",
}  # fmt: skip
_DATE = r"^\s*(?P<first>\d{1,2})(?P<mark>[./])(?P<second>\d{1,2})[./]\d{4}"
_MONTHS = 12


@dataclass(slots=True)
class Guesses:
    """The columns of a table by target, and sentences on what was assumed or rejected.

    rows: the first of the table, by which guesses are checked.
    """

    rows: pa.Table
    columns: Columns
    said: list[str] = field(default_factory=list)

    def floats(self, target: str) -> Floats:
        """The values of a column in the unit of JOBS; NaN where unknown, as all are where the table has no column."""
        none = np.full(self.rows.num_rows, np.nan)
        return self.columns[target].typed(self.rows).floats() if target in self.columns else none

    def is_guess(self, target: str) -> bool:
        """Whether a column is taken for this target by its name alone."""
        return target in self.columns and self.columns[target].known_by == GUESSED

    def set_unit(self, target: str, unit: str, evidence: str) -> None:
        """Read the numbers of a column in a unit, where nothing says theirs, and say so with what speaks for it."""
        if self.columns[target].is_number(self.rows):
            self.columns[target] = replace(self.columns[target], factor=TIME_UNITS[unit], unit=unit)
            tail = f", in which {evidence}" if evidence else ""
            self.said.append(f"{self.columns[target].shown} is read in {unit}{tail}; {_how(target)}")

    def reject(self, target: str, why: str) -> None:
        """Take no column for this target."""
        column = self.columns.pop(target)
        self.said.append(f"column {printable(column.name, 40)} is not taken for {target}: {why}")


def checked(rows: pa.Table, columns: Columns, site: SiteSettings, settings: IngestSettings) -> Guesses:
    """How the columns are read, from what is declared, and for the others from the first rows of a table."""
    zoned = {target: replace(column, zone=column.zone or site.timezone) for target, column in columns.items()}
    found = Guesses(rows, zoned)
    _reject_unreadable(found)
    _set_epochs(found)
    _set_date_order(found, settings)
    submit_s, start_s, end_s = (found.floats(name) for name in ("submit_s", "start_s", "end_s"))
    ran_s = end_s - start_s - np.nan_to_num(found.floats("suspended_s"))
    _set_duration(found, "runtime_s", ran_s, "end - start")
    _set_limit(found, first_known(ran_s, found.floats("runtime_s")))
    _set_duration(found, "wait_s", start_s - submit_s, "start - submit")
    for target in ("suspended_s", "cpu_s"):
        _set_duration(found, target, np.full(rows.num_rows, np.nan), "")
    # A guessed submit that is later than most starts or ends is another instant.
    for later, later_s in (("start_s", start_s), ("end_s", end_s)):
        n_right, n_known = int((later_s >= submit_s).sum()), int((~np.isnan(later_s - submit_s)).sum())
        if found.is_guess("submit_s") and 2 * n_right < n_known:
            found.reject("submit_s", f"it is not after {later} in {n_right:,} of {n_known:,} rows")
    for target, column in found.columns.items():
        if target in MEMORY and column.factor is None and column.numbers(rows) is not None:
            found.said.append(f"{column.shown} holds numbers without a unit and is left unknown; {_how(target)}")
        if target == "gpus" and column.unit == TRES:
            found.said.append("resource 1001 of slurmdbd is read as GPUs; see `sacctmgr show tres` whether it is")
    return found


def _reject_unreadable(found: Guesses) -> None:
    """Reject guesses that most of their values contradict; what tells when jobs ran is read all the same."""
    counted = (*COUNTS, *DURATIONS[1:], *MEMORY, "energy_j")
    for target in filter(found.is_guess, ("submit_s", *counted)):
        typed = found.columns[target].typed(found.rows)
        n_bad, n_known = int(typed.invalid.sum()), int((~typed.missing).sum())
        if target in counted and n_bad > n_known:
            found.reject(target, f"{n_bad:,} of {n_bad + n_known:,} values are of another kind")
        elif target == "submit_s" and len(typed.values) and not n_bad + n_known:
            found.reject(target, "none of its values is known")


def _set_epochs(found: Guesses) -> None:
    """The unit of instants that are numbers, by their size; small ones are s since the log's start."""
    instants, is_relative = found.columns.keys() & set(INSTANTS), False
    for target in sorted(instants):
        numbers = found.columns[target].numbers(found.rows)
        if numbers is None:
            continue
        typical = median(numbers[numbers > 0]) if (numbers > 0).any() else 0.0
        unit = next((unit for least, unit in _EPOCHS if typical > least), "s")
        is_relative |= unit == "s" and typical < _SHORTEST_S
        if not found.columns[target].has_unit:
            found.columns[target] = replace(found.columns[target], factor=TIME_UNITS[unit], unit=unit)
            if unit != "s":
                found.said.append(f"{found.columns[target].shown} is read as {unit} since 1970; {_how(target)}")
    if is_relative:
        found.said.append("instants are small numbers: they are read as s since the log's start, which stands at 1970")
        for target in instants:
            found.columns[target] = replace(found.columns[target], zero_is_known=True)


def _set_date_order(found: Guesses, settings: IngestSettings) -> None:
    """The order of day and month in dates as 02.03.2026 or 2/3/2026; with dots the day is first where nothing tells."""
    instants = found.columns.keys() & set(INSTANTS)
    columns = [one_piece(found.rows[name]) for name in sorted({found.columns[target].name for target in instants})]
    words = pa.chunked_array([column for column in columns if pa.types.is_string(column.type)], pa.string())
    dates = pc.extract_regex(words, _DATE).drop_null()
    if not len(dates):
        return
    parts = (pc.struct_field(dates, name).cast(pa.int64()) for name in ("first", "second"))
    n_day_first, n_month_first = (pc.sum(pc.greater(part, _MONTHS)).as_py() for part in parts)
    mark, is_open = pc.struct_field(dates, "mark")[0].as_py(), n_day_first == n_month_first
    day_first = settings.day_first or (mark == "." if is_open else n_day_first > n_month_first)
    why = "but no date of the table tells the order (ingest.day_first)"
    if settings.day_first:
        why = "as ingest.day_first says"
    elif not is_open:
        n_other, n_for = sorted((n_day_first, n_month_first))
        why = f"as {n_for:,} dates can only be read so, and {n_other:,} only the other way"
    order = "day" if day_first else "month"
    found.said.append(f"dates such as 02{mark}03{mark}2026 are read {order} first, {why}")
    for target in instants:
        found.columns[target] = replace(found.columns[target], day_first=day_first)


def _set_duration(found: Guesses, target: str, span_s: Floats, span: str) -> None:
    """The unit of a duration that two instants tell as well; a runtime that contradicts them may be the limit."""
    if target not in found.columns:
        return
    took, unit = found.floats(target), "s"
    known = (took > 0) & (span_s > 0)
    if known.any() and found.columns[target].is_number(found.rows):
        ratio = np.log(median(span_s[known] / took[known]))
        unit = min(TIME_UNITS, key=lambda one: abs(np.log(TIME_UNITS[one]) - ratio))
        unit = unit if abs(np.log(TIME_UNITS[unit]) - ratio) < np.log(1.1) else "s"
    n_same, n_known = int(_same(took[known] * TIME_UNITS[unit], span_s[known]).sum()), int(known.sum())
    if 2 * n_same >= n_known:
        found.set_unit(target, unit, f"it is {span}" if n_known else "")
        return
    if target == "runtime_s" and found.is_guess(target):
        # What `walltime` and the like hold is a limit if nearly all jobs ended within it.
        as_limit = replace(found.columns[target], target="requested_s")
        _, share = _limit_unit(as_limit, found.rows, span_s)
        if share >= _ENOUGH:
            found.reject(target, f"it is not {span}, and {share:.0%} of the jobs end within it, as within a limit")
            found.columns.setdefault("requested_s", as_limit)
            return
    found.said.append(f"{found.columns[target].shown} is {span} in {n_same:,} of {n_known:,} rows only")
    found.set_unit(target, "s", "")


def _same(took_s: Floats, span_s: Floats) -> Bools:
    """Whether durations are the same, up to their rounding."""
    step_s = 60.0 if not np.any(span_s % 60) else 2.0
    return np.abs(took_s - span_s) <= step_s + 0.01 * span_s


def _set_limit(found: Guesses, ran_s: Floats) -> None:
    """The unit of the limit: the smallest of s, min and h under which most runtimes are within it."""
    if "requested_s" not in found.columns:
        return
    unit, share = _limit_unit(found.columns["requested_s"], found.rows, ran_s)
    limit_s = found.floats("requested_s") * TIME_UNITS[unit]
    known = (limit_s > 0) & (ran_s > 0)
    n_same, n_known = int(_same(limit_s[known], ran_s[known]).sum()), int(known.sum())
    if found.is_guess("requested_s") and n_known >= _FEW and n_same > _ENOUGH * n_known:
        found.reject("requested_s", f"it is the runtime in {n_same:,} of {n_known:,} rows, and no limit")
    else:
        found.set_unit("requested_s", unit, f"{share:.0%} of the runtimes are within it" if share >= _ENOUGH else "")


def _limit_unit(column: KnownColumn, rows: pa.Table, ran_s: Floats) -> tuple[str, float]:
    """The unit of a limit (before it is set), and the share of the runtimes within it; 0 where none is known."""
    limit = column.typed(rows).floats()
    known = (limit > 0) & (ran_s > 0)
    if not known.any():
        return "s", 0.0
    units = ("s", "min", "h") if column.is_number(rows) else ("s",)
    shares = {unit: float(np.mean(ran_s[known] <= limit[known] * TIME_UNITS[unit] + 60.0)) for unit in units}
    unit = next((unit for unit, share in shares.items() if share >= _ENOUGH), "s")
    return unit, shares[unit]


def _how(target: str) -> str:
    return f"declare it in the config, as ingest.columns.{target}.unit"
