"""The declaration of a column, and builders for the usual types.

Names end in units (`_s` seconds, `_kib` kibibytes, `_pct` per cent); the metadata of the field repeats them. Instants
are UTC epoch seconds (int64); durations are float64 seconds, because logs write fractions. Null is unknown.
"""

from dataclasses import dataclass

import pyarrow as pa

CATEGORY = pa.dictionary(pa.int32(), pa.string())

INSTANT_UNIT = "s since 1970-01-01 UTC"
"""The unit of columns of instants."""


@dataclass(frozen=True, slots=True)
class Column:
    """The declaration of one column: its Arrow type in memory, its unit and its meaning."""

    name: str
    type: pa.DataType
    meaning: str
    unit: str | None = None
    is_required: bool = False
    minimum: float | None = None

    def field(self, *, on_disk: bool = False) -> pa.Field:
        """The Arrow field, with unit and meaning as metadata; on disk a category is a plain string."""
        stored = pa.string() if on_disk and self.type == CATEGORY else self.type
        facts = {"meaning": self.meaning} | ({"unit": self.unit} if self.unit else {})
        return pa.field(self.name, stored, nullable=not self.is_required, metadata=facts)


def text(name: str, meaning: str, *, required: bool = False) -> Column:
    """A column of free text."""
    return Column(name, pa.string(), meaning, is_required=required)


def category(name: str, meaning: str, *, required: bool = False) -> Column:
    """A column of text that repeats: a dictionary in memory, plain strings on disk."""
    return Column(name, CATEGORY, meaning, is_required=required)


def instant(name: str, meaning: str) -> Column:
    """A column of instants, UTC epoch seconds."""
    return Column(name, pa.int64(), meaning, unit=INSTANT_UNIT)


def seconds(name: str, meaning: str) -> Column:
    """A column of durations, s."""
    return Column(name, pa.float64(), meaning, unit="s")


def count(name: str, meaning: str, unit: str, *, required: bool = False, minimum: float | None = 0) -> Column:
    """A column of whole numbers."""
    return Column(name, pa.int64(), meaning, unit=unit, is_required=required, minimum=minimum)


def number(name: str, meaning: str, unit: str | None = None) -> Column:
    """A column of real numbers."""
    return Column(name, pa.float64(), meaning, unit=unit)


def list_of(name: str, of: pa.DataType, meaning: str) -> Column:
    """A column of lists of one element type."""
    return Column(name, pa.list_(pa.field("element", of)), meaning)


def truth(name: str, meaning: str) -> Column:
    """A required column of booleans."""
    return Column(name, pa.bool_(), meaning, is_required=True)
