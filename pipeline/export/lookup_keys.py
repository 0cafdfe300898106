"""Keys of the look-up file: values quoted so that no text of a user can end a field, and the bucket of a key.

The hash is a polynomial modulo a prime. All its values are integers below 2^51, so that a language whose only numbers
are doubles (Lua 5.1) computes the same one.
"""

from collections.abc import Sequence
from functools import cache
from urllib.parse import quote

import numpy as np

from pipeline.core.arrays import Ints

PRIME = 2**31 - 1
LEAST_MULTIPLIER, MULTIPLIERS = 2**16, 2**19
"""A file's multiplier is at least the first and less than the sum: products stay below 2^51."""

NAME_KIND = "n"
"""The first field of the key of a job's name; other keys begin with the rank of their template."""


@cache
def quoted(text: str) -> str:
    """The text in ASCII: every byte of its UTF-8 form but letters, digits and `_.-~@+` is written as %XX."""
    return quote(text, safe="@+", errors="surrogateescape")


def key_of(kind: int | str, values: Sequence[str | float]) -> str:
    """A key: its kind and its values, texts quoted, numbers as C's %.17g prints them, joined by `|`."""
    return "|".join([str(kind), *(quoted(one) if isinstance(one, str) else f"{one:.17g}" for one in values)])


def hash_of(key: str, multiplier: int) -> int:
    """The hash of a key, in [0, PRIME)."""
    found = 0
    for byte in key.encode("ascii"):
        found = (found * multiplier + byte) % PRIME
    return found


def hashes_of(keys: Sequence[str], multiplier: int) -> Ints:
    """int64[n], the hash of every key; the work is one step per character of the longest key."""
    joined = np.frombuffer("".join(keys).encode("ascii"), np.uint8)
    lengths = np.fromiter(map(len, keys), np.int64, len(keys))
    starts = np.cumsum(lengths) - lengths
    longest_first = np.argsort(-lengths, kind="stable")
    still_reading = len(keys) - np.searchsorted(np.sort(lengths), np.arange(lengths.max(initial=0)), side="right")
    found = np.zeros(len(keys), np.int64)
    for position, n_longer in enumerate(still_reading):
        places = longest_first[:n_longer]
        found[places] = (found[places] * multiplier + joined[starts[places] + position]) % PRIME
    return found
