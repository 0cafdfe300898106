"""A hash of each job as the estimator sees it, by which a later log shows whether a State still holds."""

import hashlib
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from pipeline.core.arrays import Array, Ints, category_codes
from pipeline.core.buffers import integers, words_of
from pipeline.estimate.history import ARRAYS, History
from pipeline.estimate.keys import mixed

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
        _hashes_of_names(site_names)[sites[past.row]],
        restarts[past.row],
        *(_bits(getattr(past, name)) for name in ARRAYS if name != "row"),
        *(_hashes_of_names(past.names[name])[codes] for name, codes in past.codes.items()),
    ]
    return mixed(np.zeros(len(past), np.int64), *columns)


def _bits(values: Array) -> Ints:
    """The bits of numbers; every NaN has the same."""
    if values.dtype == np.float64:
        return np.where(np.isnan(values), np.nan, values).view(np.int64)
    return values.astype(np.int64)


def _hashes_of_names(names: Sequence[str]) -> Ints:
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
