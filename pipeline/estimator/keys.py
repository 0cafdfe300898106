"""Numbers of keys (combinations of values) that stay as a log grows, and hashes of names."""

import hashlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from pipeline.arrays import Array, Floats, Ints

MASK = np.uint64(2**63 - 1)


class Numbered(NamedTuple):
    """The keys known so far, as hashes in ascending order, and the number of each, from 0 in order of first use."""

    digest: Ints
    number: Ints

    def __len__(self) -> int:
        return len(self.digest)


def no_keys() -> Numbered:
    """The empty set of keys."""
    return Numbered(np.empty(0, np.int64), np.empty(0, np.int64))


def mixed(*columns: Ints | Floats) -> Ints:
    """One 63-bit hash a row (splitmix64 over the columns); -1 where the first column is below 0."""
    found = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        found = _splitmix(found ^ _splitmix(np.ascontiguousarray(column).view(np.uint64)))
    return np.where(columns[0] < 0, np.int64(-1), (found & MASK).astype(np.int64))


def _splitmix(values: Array) -> Array:
    """Steele, Lea & Flood (2014): a bijection of 64 bits."""
    mixed_bits = values + np.uint64(0x9E3779B97F4A7C15)
    mixed_bits = (mixed_bits ^ (mixed_bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed_bits = (mixed_bits ^ (mixed_bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed_bits ^ (mixed_bits >> np.uint64(31))


def numbers(keys: Numbered, digests: Ints) -> Ints:
    """The number of each hash; -1 where it is -1, and len(keys) for every key not known."""
    place = np.minimum(np.searchsorted(keys.digest, digests), max(len(keys) - 1, 0))
    is_known = keys.digest[place] == digests if len(keys) else np.zeros(len(digests), np.bool_)
    found = np.where(is_known, keys.number[place] if len(keys) else 0, len(keys))
    return np.where(digests < 0, -1, found)


def with_new(keys: Numbered, digests: Ints) -> Numbered:
    """The keys and, numbered in order of first use, the hashes that are not among them."""
    is_new = (digests >= 0) & (numbers(keys, digests) == len(keys))
    values, first = np.unique(digests[is_new], return_index=True)
    number = np.empty(len(values), np.int64)
    number[np.argsort(first, kind="stable")] = len(keys) + np.arange(len(values))
    digest = np.concatenate([keys.digest, values])
    order = np.argsort(digest, kind="stable")
    return Numbered(digest[order], np.concatenate([keys.number, number])[order])


def grown(array: Array, n_rows: int) -> Array:
    """The array with `n_rows` rows before its last one, which is blank and stands for a key that is not known."""
    n_new = n_rows + 1 - len(array)
    return array if n_new <= 0 else np.concatenate([array[:-1], np.repeat(array[-1:], n_new + 1, axis=0)])


def hashes_of_names(names: Sequence[str]) -> Ints:
    """A hash of each text, and behind them 0 for the code -1."""
    raw = b"".join(hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest() for name in names)
    return np.append(np.frombuffer(raw, "<i8"), 0).astype(np.int64)


def texts(values: Iterable[str]) -> Array:
    """Texts as an array of objects."""
    listed = list(values)
    found = np.empty(len(listed), object)
    found[:] = listed
    return found
