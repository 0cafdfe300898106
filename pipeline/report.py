"""Counts and processor-seconds of a stage: input = kept + set aside. Also the one reader of dataclasses from JSON."""

import json
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from pipeline.errors import ConservationError, printable

if TYPE_CHECKING:
    from pydantic import TypeAdapter

T = TypeVar("T")

Fact = int | float | str | None


@dataclass(frozen=True, slots=True)
class Tally:
    """A number of rows and their processor-seconds."""

    rows: int = 0
    proc_s: float = 0.0

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(self.rows + other.rows, self.proc_s + other.proc_s)


@dataclass(frozen=True, slots=True)
class Report:
    """The figures of one stage. `unit` is what a row is (line, job, group); reasons are in a fixed order."""

    stage: str
    unit: str
    seen: Tally
    kept: Tally
    set_aside: Mapping[str, Tally] = field(default_factory=dict)
    facts: Mapping[str, Fact] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def check(self) -> Self:
        """Itself, if seen = kept + set aside in rows and processor-seconds; ConservationError otherwise."""
        out = sum(self.set_aside.values(), self.kept)
        if out.rows != self.seen.rows or not math.isclose(out.proc_s, self.seen.proc_s, rel_tol=1e-9, abs_tol=1e-6):
            raise ConservationError(
                f"stage {self.stage}: found {out.rows} {self.unit}s and {out.proc_s:.0f} processor-seconds after it, "
                f"expected {self.seen.rows} and {self.seen.proc_s:.0f} as before it; this is a fault of Walltime."
            )
        return self

    def as_dict(self) -> dict[str, Any]:
        """Plain dictionaries for JSON."""
        return asdict(self) | {"notes": list(self.notes)}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Self:
        """The inverse of `as_dict`."""
        return read_dataclass(cls, plain)


@dataclass(frozen=True, slots=True)
class StepResult(Generic[T]):
    """A finished step: its tables by name, or their paths; its report; whether an earlier run had computed it.

    `seconds` is what it took, where that was measured.
    """

    tables: Mapping[str, T]
    report: Report
    is_reused: bool = False
    seconds: float = 0.0


def total(tallies: Iterable[Tally]) -> Tally:
    """The sum of some tallies."""
    return sum(tallies, Tally())


def joined_report(reports: Sequence[Report], largest: Collection[str] = ()) -> Report:
    """The report of a stage from those on parts of its table, in order.

    Tallies and facts are summed; of the facts named in `largest` the largest counts, and of texts the last one.
    """
    reasons = dict.fromkeys(reason for report in reports for reason in report.set_aside)
    aside = {reason: total(r.set_aside[reason] for r in reports if reason in r.set_aside) for reason in reasons}
    facts: dict[str, Fact] = {}
    for name in dict.fromkeys(name for report in reports for name in report.facts):
        values = [report.facts[name] for report in reports if name in report.facts]
        numbers = [value for value in values if isinstance(value, int | float)]
        facts[name] = values[-1] if len(numbers) < len(values) else (max if name in largest else sum)(numbers)
    first, notes = reports[0], tuple(dict.fromkeys(note for report in reports for note in report.notes))
    seen, kept = total(r.seen for r in reports), total(r.kept for r in reports)
    return Report(first.stage, first.unit, seen, kept, aside, facts, notes).check()


Counter = Callable[[str, int], None]
"""Called with a unit, as in "lines", and the number of units done since the last call."""

_counter: ContextVar[Counter | None] = ContextVar("counter", default=None)


@contextmanager
def counting(counter: Counter | None) -> Iterator[None]:
    """Pass the counts of the computations inside to `counter`."""
    token = _counter.set(counter)
    try:
        yield
    finally:
        _counter.reset(token)


def count_done(unit: str, n: int = 1) -> None:
    """Pass to the counter, if there is one, that `n` more units are done."""
    counter = _counter.get()
    if counter is not None:
        counter(unit, n)


class FieldError(ValueError):
    """A field whose value is missing or has the wrong type; the text names the field and the expected type."""


def parsed_json(text: str | bytes) -> Any:
    """The values of a JSON text; ValueError also where it nests deeper than Python reads."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("JSON that nests too deep") from None


def read_dataclass(kind: type[T], plain: Any) -> T:
    """The dataclass `kind`, filled from parsed JSON by field name, recursively; a list becomes a tuple.

    Undeclared keys are ignored, and a missing field takes its default. Raises FieldError for the first one without a
    default, or of the wrong type.
    """
    from pydantic import ValidationError  # noqa: PLC0415  (most commands read no such file)

    try:
        found: T = _adapter(kind).validate_python(plain)  # type: ignore[arg-type]
        return found
    except ValidationError as error:
        fault = error.errors()[0]
        raise FieldError(f"{printable('.'.join(map(str, fault['loc'])))}: {printable(fault['msg'])}") from None


@cache
def _adapter(kind: Any) -> "TypeAdapter[Any]":
    from pydantic import TypeAdapter  # noqa: PLC0415  (see above)

    return TypeAdapter(kind)
