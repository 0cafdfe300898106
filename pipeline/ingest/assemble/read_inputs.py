"""Reads inputs of runs from job names, comments and submit lines by the rules of a site.

Anyone may write these texts, so that patterns are matched by RE2 (in Arrow), whose time is linear in the text. The
whole text has to match, its first MAX_CHARACTERS characters are read, and each distinct text is read once.
"""

import json
import re
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from pipeline.core import compute as pc
from pipeline.core.input_settings import InputRule, whole_text_pattern

MAX_CHARACTERS = 4_096
MAX_VALUE = 64
"""Characters of a value; a longer one is unknown, because it is no parameter that repeats."""
_NUMBER = re.compile(r"[+-]?[0-9]{1,30}(?:\.[0-9]{0,30})?(?:[eE][+-]?[0-9]{1,3})?")


def inputs_column(table: pa.Table, rules: Sequence[InputRule], *, only_numbers: bool = False) -> pa.Array | None:
    """The column `inputs` of JOBS: JSON objects of texts by name, null where no rule matches; None without such a text.

    With `only_numbers`, as where a site anonymises, other values are left out.
    """
    found: pa.Array | None = None
    for rule in rules:
        if rule.text in table.column_names:
            own = _by_rule(table.column(rule.text), rule, only_numbers=only_numbers)
            found = own if found is None else pc.coalesce(found, own)
    return found


def inputs_of(texts: Mapping[str, str], rules: Sequence[InputRule], *, only_numbers: bool = False) -> str | None:
    """What the rules read from one job's texts, given by column of the log; rules of texts not given are not asked."""
    found = inputs_column(pa.table({name: [text] for name, text in texts.items()}), rules, only_numbers=only_numbers)
    return None if found is None else found[0].as_py()


def _by_rule(column: pa.ChunkedArray, rule: InputRule, *, only_numbers: bool) -> pa.Array:
    encoded = column.cast(pa.string()).combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks() if encoded.num_chunks else pa.array([], pa.string()).dictionary_encode()
    words = pc.utf8_slice_codeunits(encoded.dictionary, 0, MAX_CHARACTERS)
    matches = pc.extract_regex(words, whole_text_pattern(rule.find)).to_pylist()
    values = pa.array([_json(match, only_numbers) for match in matches], pa.string())
    places = pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False)
    return values.take(pa.array(np.where(places < 0, 0, places), mask=places < 0)) if len(values) else pa.nulls(
        len(encoded), pa.string())  # fmt: skip


def _json(match: dict[str, str] | None, only_numbers: bool) -> str | None:
    """The known values as JSON with sorted names; None where there is none."""
    if match is None:
        return None
    known = {name: value for name, value in match.items() if value and len(value) <= MAX_VALUE}
    if only_numbers:
        known = {name: value for name, value in known.items() if _NUMBER.fullmatch(value)}
    return json.dumps(known, sort_keys=True, ensure_ascii=False, separators=(",", ":")) if known else None
