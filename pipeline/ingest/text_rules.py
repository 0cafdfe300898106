"""A site's own rules on the text of its jobs.

A pattern that backtracks without end is the site's own risk, on text that anyone may write: rules see the first
MAX_CHARACTERS characters only, each distinct text once, so an honest pattern costs microseconds and a careless one is
kept within what 256 characters can do to it.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.core.buffers import arrow, integers, nulls, texts
from pipeline.core.column import CATEGORY
from pipeline.core.errors import ConfigError
from pipeline.core.settings import TextRule
from pipeline.core.text import printable

MAX_CHARACTERS = 256
_KNOWN_TEXTS = 1 << 16


@dataclass(slots=True)
class PerText:
    """A function of text applied to columns, once for each distinct text; what it gave is remembered, to a bound."""

    of: Callable[[str], str | None]
    _known: dict[str, str | None] = field(default_factory=dict)

    def column(self, array: pa.Array) -> pa.Array:
        """The function's values as categories; null where it gives None, and where the text is null."""
        if array.null_count == len(array):
            return pa.nulls(len(array), CATEGORY)
        encoded = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
        distinct = encoded.dictionary.to_pylist()
        # Texts that hardly repeat are not worth remembering.
        is_repeating = len(distinct) < len(array) // 2
        found = [self._value(word) if is_repeating else self.of(word) for word in distinct]
        words = sorted({word for word in found if word is not None})
        place = {word: rank for rank, word in enumerate(words)}
        codes = np.array([place.get(word, 0) if word is not None else -1 for word in found], np.int32)
        indices = codes[np.where(nulls(encoded.indices), 0, integers(encoded.indices)[0])]
        missing = (indices < 0) | nulls(encoded.indices)
        return pa.DictionaryArray.from_arrays(arrow(np.maximum(indices, 0), missing), texts(words))

    def _value(self, text: str) -> str | None:
        if text not in self._known:
            if len(self._known) >= _KNOWN_TEXTS:
                self._known.clear()
            self._known[text] = self.of(text)
        return self._known[text]


@dataclass(frozen=True, slots=True)
class Rules:
    """A site's rules for one column: the first that matches wins."""

    tried: tuple[tuple[str, PerText], ...]

    def column(self, table: pa.Table) -> pa.Array | None:
        """The rules' values as categories, null where none matches; None where the table has none of their texts."""
        texts_of = {name: in_one_piece(table.column(name)) for name, _ in self.tried if name in table.column_names}
        found = [per_text.column(texts_of[name]) for name, per_text in self.tried if name in texts_of]
        return first_known(found) if found else None


def rules_of(rules: Sequence[TextRule], where: str) -> Rules:
    """Rules ready to use; ConfigError where `gives` names a group that `find` lacks."""
    return Rules(tuple((rule.text, PerText(_matcher(rule, f"{where}[{i}]"))) for i, rule in enumerate(rules)))


def in_one_piece(column: pa.ChunkedArray) -> pa.Array:
    """A column as one array."""
    array = (column.unify_dictionaries() if pa.types.is_dictionary(column.type) else column).combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        return array.chunk(0) if array.num_chunks else pa.nulls(0, column.type)
    return array


def first_known(columns: Sequence[pa.Array]) -> pa.Array:
    """Of each row, the first value that is not null, as categories."""
    if len(columns) == 1:
        return columns[0]
    return pc.coalesce(*(column.cast(pa.string()) for column in columns)).dictionary_encode()


def _matcher(rule: TextRule, where: str) -> Callable[[str], str | None]:
    find = re.compile(rule.find)
    gives = rule.gives if rule.gives is not None else r"\1" if find.groups else r"\g<0>"
    try:
        re._parser.parse_template(gives, find)  # type: ignore[attr-defined]
    except (re.error, IndexError) as error:
        raise ConfigError(
            where, f"gives = '{printable(gives)}' ({error})", "text with groups that `find` has", "correct it"
        ) from None

    def value(text: str) -> str | None:
        found = find.search(text[:MAX_CHARACTERS])
        return (found.expand(gives) or None) if found else None

    return value
