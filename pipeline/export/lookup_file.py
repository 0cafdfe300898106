"""The look-up file: ESTIMATES and MEMORY as text in which a reader finds a key with two reads.

Line 1 is the stamp. Lines 2 to 4 name the templates and the columns. Then comes a directory of fixed width: the offset
of every bucket, and of the end. Then come the rows, one a line, in order of bucket and key. Each row ends with a
checksum, and so does line 1, whose checksum is that of lines 1 to 4.

Texts in keys are quoted, so that no text of a user can end a field. The hash function that chooses the bucket of a key
is a polynomial modulo a prime. All its values are integers below 2^51, so that a language whose only numbers are
doubles (Lua 5.1) computes the same ones.
"""

import hashlib
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.arrays import Ints, replaced
from pipeline.errors import InputError
from pipeline.export.lookup_reader import (
    CHECK,
    EARLY_KIND,
    ENTRY_BYTES,
    FORMAT,
    MEDIAN_KIND,
    MEMORY_KIND,
    NAME_KIND,
    PRIME,
    QUEUE_KIND,
    key_columns,
    key_of,
    quoted,
)
from pipeline.tables import MEMORY

LEAST_MULTIPLIER, MULTIPLIERS = 2**16, 2**19
"""A file's multiplier is at least the first and less than the sum: products stay below 2^51."""

NO_STAMP = "0" * 16
"""In place of the stamp where the stamp is computed."""
QUANTILE_NAMES = ("q10", "q50", "q80", "q90", "q95", "q99")
COLUMNS = ("key", "n_jobs", *QUANTILE_NAMES, *(f"ratio_{name}" for name in QUANTILE_NAMES))
ROWS_PER_BUCKET = 4
MIB_KIB = 1024
FEW_JOBS = 5
"""Least number of jobs of a row of memory."""

_VALUES = "\t".join(["%d", *["%.7g"] * len(QUANTILE_NAMES)])
_RATIOS = "\t%.7g" * len(QUANTILE_NAMES)


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


def lookup_file(
    estimates: pa.Table, applications: Mapping[str, str],
    memory: pa.Table | None = None, gpu_types: Mapping[str, str] | None = None,
    early: Collection[tuple[str, str]] = (), medians_s: Mapping[str, float] | None = None,
) -> bytes:  # fmt: skip
    """The look-up file of one version of ESTIMATES and MEMORY; the same tables give the same bytes.

    Parameters
    ----------
    estimates : pa.Table
        ESTIMATES of one site and one run; may have no row.
    applications : mapping of str to str
        The application of each job name that the built-in rules do not find (`known_applications`).
    memory : pa.Table, optional
        MEMORY of the same run; its rows with an application and at least FEW_JOBS jobs are written.
    gpu_types : mapping of str to str, optional
        The type of GPUs of each queue that has one alone.
    early : collection of (str, str)
        `who` and `what` of the kinds of jobs that keep their requests (`early_kinds`).
    medians_s : mapping of str to float, optional
        The median runtime of each queue's jobs, s.

    Returns
    -------
    bytes
        ASCII text; its format is described in docs/lookup_file.md.

    Raises
    ------
    InputError
        If no table has a row, or they have rows of more than one site or run.

    Examples
    --------
    >>> lookup_file(tables["estimates"], {})[:18]
    b'#walltime-lookup 4'
    """
    asks = _told_memory(memory) if memory is not None else MEMORY.empty()
    tables = (estimates, asks)
    run, site = _only(tables, "run_id"), _only(tables, "site")
    kinds = [kinds_of(table) for table in tables]
    rows = [*_estimate_rows(estimates, kinds[0]), *_memory_rows(asks, kinds[1])]
    for kind, texts in ((NAME_KIND, applications), (QUEUE_KIND, gpu_types or {})):
        rows += [(key_of(kind, (name,)), quoted(text)) for name, text in texts.items()]
    rows += [(key_of(EARLY_KIND, one), "1") for one in early]
    rows += [(key_of(MEDIAN_KIND, (name,)), f"{median_s:.7g}") for name, median_s in (medians_s or {}).items()]
    keys, values = [key for key, _ in rows], [value for _, value in rows]
    multiplier = LEAST_MULTIPLIER + int(hashlib.sha256(run.encode()).hexdigest(), 16) % MULTIPLIERS
    buckets = max(1, len(keys) // ROWS_PER_BUCKET)
    lines, sizes = _in_buckets(keys, values, multiplier, buckets)
    chains = (" ".join(f"{rank}:{template}" for rank, template in one.items()) for one in kinds)
    heading = "#chain {}\n#memory {}\n#columns {}\n".format(*chains, " ".join(COLUMNS))
    facts = {
        "run": run, "site": quoted(site), "newest_end_s": newest_end_of(tables), "rows": estimates.num_rows,
        "names": len(applications), "buckets": buckets, "multiplier": multiplier,
    }  # fmt: skip
    return _assembled(facts, heading, lines, sizes, multiplier)


def newest_end_of(tables: Sequence[pa.Table]) -> int:
    """End of the newest job behind tables with a column newest_end_s, s since 1970; 0 where none has a row."""
    return max((pc.max(table["newest_end_s"]).as_py() or 0 for table in tables), default=0)


def is_whole(content: bytes) -> bool:
    """Whether the bytes of a look-up file are those that its stamp was made of."""
    line, _, rest = content.partition(b"\n")
    first = line.decode("ascii", "replace").rpartition(CHECK)[0]
    stamp = first.partition("stamp=")[2][: len(NO_STAMP)]
    return first.startswith(f"{FORMAT} ") and stamp == stamp_of(first.replace(stamp, NO_STAMP, 1), rest)


def stamp_of(first: str, rest: bytes) -> str:
    """The stamp of a file: a hash of line 1, with NO_STAMP and without its checksum, and of all that follows it."""
    return hashlib.sha256(first.encode("ascii", "replace") + rest).hexdigest()[: len(NO_STAMP)]


def _assembled(
    facts: Mapping[str, object], heading: str, lines: Sequence[str], sizes: Sequence[int], multiplier: int
) -> bytes:
    """The file; offsets in line 1 have a fixed width, so that its length does not depend on them."""
    first = f"{FORMAT} stamp={NO_STAMP} " + " ".join(f"{name}={value}" for name, value in facts.items())
    directory = len(first) + len(f" directory={0:012d} bytes={0:012d}{CHECK}{0:010d}\n") + len(heading)
    rows_from = directory + ENTRY_BYTES * (len(sizes) + 1)
    offsets = np.cumsum([rows_from, *sizes]).tolist()
    first += f" directory={directory:012d} bytes={offsets[-1]:012d}"
    rest = "".join(f"{offset:012d}\n" for offset in offsets) + "".join(lines)
    first = first.replace(NO_STAMP, stamp_of(first, (heading + rest).encode("ascii")), 1)
    check = hashes_of([f"{first}\n{heading}"], multiplier)[0]
    return f"{first}{CHECK}{check:010d}\n{heading}{rest}".encode("ascii")


def _only(tables: Sequence[pa.Table], name: str) -> str:
    found = {one for table in tables for one in table.column(name).unique().to_pylist()}
    if len(found) != 1:
        do = "run again to publish them anew"
        raise InputError("tables estimates and memory", f"{len(found)} values of {name}", "one", do)
    return str(found.pop())


def kinds_of(table: pa.Table) -> dict[int, str]:
    """The template of each rank, in order of look-up."""
    pairs = zip(table.column("chain_rank").to_pylist(), table.column("template").to_pylist(), strict=True)
    return dict(sorted(set(pairs)))


def _keys(table: pa.Table, kinds: Mapping[int, str], before: str = "") -> list[str]:
    """The key of every row; jobs without GPUs have an empty type of GPUs."""
    named = {rank: key_columns(template) for rank, template in kinds.items()}
    columns = {name: table.column(name).to_pylist() for name in {"chain_rank"}.union(*named.values())}
    if "gpu_type" in columns:
        columns["gpu_type"] = [one or "" for one in columns["gpu_type"]]
    return [
        key_of(f"{before}{rank}", [columns[name][place] for name in named[rank]])
        for place, rank in enumerate(columns["chain_rank"])
    ]


Row = tuple[str, str]
"""A key and the text behind it."""


def _estimate_rows(estimates: pa.Table, kinds: Mapping[int, str]) -> Iterator[Row]:
    seconds, ratios = (
        zip(*(estimates.column(f"{unit}_{name}").to_pylist() for name in QUANTILE_NAMES), strict=True)
        for unit in ("runtime_s", "ratio")
    )
    n_jobs = estimates.column("n_jobs").to_pylist()
    for key, count, own_s, own in zip(_keys(estimates, kinds), n_jobs, seconds, ratios, strict=True):
        yield key, _VALUES % (count, *own_s) + ("" if own[0] is None else _RATIOS % own)


def _told_memory(memory: pa.Table) -> pa.Table:
    """The rows on enough jobs of one user and application, with requests in whole KiB, as submits can tell them."""
    is_told = pc.and_(pc.is_valid(memory["what"]), pc.greater_equal(memory["n_jobs"], FEW_JOBS))
    found = memory.filter(pc.and_(is_told, pc.is_valid(memory["who"])))
    return replaced(found, "requested_mem_kib", pc.floor(pc.add(found["requested_mem_kib"], 0.5)))


def _memory_rows(memory: pa.Table, kinds: Mapping[int, str]) -> Iterator[Row]:
    """What to ask for, KiB per processor in whole MiB, never less than was used, and the jobs behind it."""
    found: dict[str, tuple[float, int]] = {}
    columns = (memory.column(name).to_pylist() for name in ("recommended_mem_kib", "largest_mem_kib", "n_jobs"))
    for key, ask_kib, largest_kib, n_jobs in zip(_keys(memory, kinds, MEMORY_KIND), *columns, strict=True):
        # Two requests may be one in whole KiB.
        before_kib, n_before = found.get(key, (0.0, 0))
        found[key] = max(ask_kib, largest_kib, before_kib), n_jobs + n_before
    for key, (kib, n_jobs) in found.items():
        yield key, f"{math.ceil(kib / MIB_KIB) * MIB_KIB}\t{n_jobs}"


def _in_buckets(
    keys: Sequence[str], values: Sequence[str], multiplier: int, buckets: int
) -> tuple[list[str], list[int]]:
    """The lines, each with its checksum, in order of bucket and key, and the bytes of every bucket."""
    bucket = hashes_of(keys, multiplier) % buckets
    by_key = sorted(range(len(keys)), key=lambda place: keys[place])
    order = np.array(by_key)[np.argsort(bucket[by_key], kind="stable")].tolist()
    for one, other in pairwise(order):
        if keys[one] == keys[other]:
            raise InputError("tables estimates and memory", "two rows with one key", "one row a key", "run again")
    texts = [f"{keys[place]}\t{values[place]}" for place in order]
    checks = hashes_of(texts, multiplier).tolist()
    lines = [f"{text}\t{check}\n" for text, check in zip(texts, checks, strict=True)]
    sizes = np.bincount(bucket[order], [len(line) for line in lines], buckets)
    return lines, sizes.astype(np.int64).tolist()
