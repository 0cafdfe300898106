"""Numbers of keys (combinations of values), stable from one part of a log to the next, and hashes of jobs.

By a job's hash a later log shows whether a State still holds.
"""

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from pipeline.arrays import Array, Floats, Ints, category_codes, integers, words_of
from pipeline.estimate.history import ARRAYS, History

MASK = np.uint64(2**63 - 1)


class Keys(NamedTuple):
    """The keys known so far, as hashes in ascending order, and the number of each, from 0 in order of first use."""

    digest: Ints
    number: Ints

    def __len__(self) -> int:
        return len(self.digest)


def no_keys() -> Keys:
    """The empty set of keys."""
    return Keys(np.empty(0, np.int64), np.empty(0, np.int64))


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


def numbers(keys: Keys, digests: Ints) -> Ints:
    """The number of each hash; -1 where it is -1, and len(keys) for every key not known."""
    place = np.minimum(np.searchsorted(keys.digest, digests), max(len(keys) - 1, 0))
    is_known = keys.digest[place] == digests if len(keys) else np.zeros(len(digests), np.bool_)
    found = np.where(is_known, keys.number[place] if len(keys) else 0, len(keys))
    return np.where(digests < 0, -1, found)


def with_new(keys: Keys, digests: Ints) -> Keys:
    """The keys and, numbered in order of first use, the hashes that are not among them."""
    is_new = (digests >= 0) & (numbers(keys, digests) == len(keys))
    values, first = np.unique(digests[is_new], return_index=True)
    number = np.empty(len(values), np.int64)
    number[np.argsort(first, kind="stable")] = len(keys) + np.arange(len(values))
    digest = np.concatenate([keys.digest, values])
    order = np.argsort(digest, kind="stable")
    return Keys(digest[order], np.concatenate([keys.number, number])[order])


def grown(array: Array, n_rows: int) -> Array:
    """The array with `n_rows` rows before its last one, which is blank and stands for a key that is not known."""
    n_new = n_rows + 1 - len(array)
    return array if n_new <= 0 else np.concatenate([array[:-1], np.repeat(array[-1:], n_new + 1, axis=0)])


_FACTOR = np.uint64(0x100000001B3)
"""The prime of the FNV-1a hash with 64 bits; any odd number whose powers differ would do."""


def job_hashes(jobs: pa.Table, past: History) -> Ints:
    """Per job of a history a hash of its record's id and of all that the estimator learns from it.

    Equal jobs have equal hashes in any log, because texts count and not their codes.

    Parameters
    ----------
    jobs : pa.Table
        JOBS.
    past : History
        History of these jobs, or the same as known by a time.

    Returns
    -------
    Ints
        int64[n], one value per job of the history, 0 or more.
    """
    sites, site_names = category_codes(jobs, "site")
    restarts, _ = integers(jobs.column("restart"))
    columns: list[Array] = [
        _text_hashes(jobs.column("job_id").cast(pa.string()))[past.row],
        hashes_of_names(site_names)[sites[past.row]],
        restarts[past.row],
        *(_bits(getattr(past, name)) for name in ARRAYS if name != "row"),
        *(hashes_of_names(names)[past.codes[name]] for name, names in past.names.items()),
    ]
    return mixed(np.zeros(len(past), np.int64), *columns)


def _bits(values: Array) -> Ints:
    """The bits of numbers; every NaN has the same."""
    if values.dtype == np.float64:
        return np.where(np.isnan(values), np.nan, values).view(np.int64)
    return values.astype(np.int64)


def hashes_of_names(names: Sequence[str]) -> Ints:
    """A hash of each text, and behind them 0 for the code -1."""
    raw = b"".join(hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest() for name in names)
    return np.append(np.frombuffer(raw, "<i8"), 0).astype(np.int64)


def _text_hashes(column: pa.ChunkedArray) -> Ints:
    """A hash of each text of a column without nulls: a polynomial of its bytes, modulo 2^64."""
    found = [_chunk_hashes(chunk) for chunk in column.chunks]
    return np.concatenate([np.empty(0, np.int64), *found])


def _chunk_hashes(chunk: pa.Array) -> Ints:
    data, places = words_of(chunk)
    begin, ends = int(places[0]), places.astype(np.int64) - int(places[0])
    lengths = np.diff(ends)
    position = np.arange(ends[-1]) - np.repeat(ends[:-1], lengths)
    powers = np.cumprod(np.full(int(lengths.max(initial=0)) + 1, _FACTOR, np.uint64))
    terms = (data[begin : begin + int(ends[-1])].astype(np.uint64) + np.uint64(1)) * powers[position]
    sums = np.append(np.uint64(0), np.cumsum(terms, dtype=np.uint64))
    return (sums[ends[1:]] - sums[ends[:-1]]).view(np.int64)
