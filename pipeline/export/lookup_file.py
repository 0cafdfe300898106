"""The look-up file: ESTIMATES and LIMITS as text in which a reader finds a key with two reads, without loading it.

Line 1 is the stamp. Lines 2 to 4 name the templates and the columns. Then comes a directory of fixed width: the offset
of every bucket, and of the end. Then come the rows, one a line, in order of bucket and key. Each row ends with a
checksum, and so does line 1, whose checksum is that of lines 1 to 4.

Texts in keys are quoted, so that no text of a user can end a field. The hash of a key's bucket is a polynomial modulo a
prime. All its values are integers below 2^51, so that a language whose only numbers are doubles (Lua 5.1) computes the
same one.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.arrays import Ints, integers
from pipeline.errors import InputError

PRIME = 2**31 - 1
LEAST_MULTIPLIER, MULTIPLIERS = 2**16, 2**19
"""A file's multiplier is at least the first and less than the sum: products stay below 2^51."""

NAME_KIND = "n"
"""The first field of the key of a job's name; other keys begin with the rank of their template,"""
LIMIT_KIND = "l"
"""in rows of LIMITS behind this letter."""
FORMAT = "#walltime-lookup 2"
CHECK = " check="
NO_STAMP = "0" * 16
"""In place of the stamp where the stamp is computed."""
ALL = "all"
QUANTILE_NAMES = ("q10", "q50", "q80", "q90", "q95", "q99")
COLUMNS = ("key", "n_jobs", *QUANTILE_NAMES, *(f"ratio_{name}" for name in QUANTILE_NAMES))
LIMIT_COLUMNS = ("limit_s", "most_jobs", "n_jobs", "chance_beyond", "status")
ROWS_PER_BUCKET = 4
OFFSET_DIGITS = 12
ENTRY_BYTES = OFFSET_DIGITS + 1
"""Of a directory entry: an offset with leading zeros, and a line end."""
_VALUES = "\t".join(["%d", *["%.7g"] * len(QUANTILE_NAMES)])
_RATIOS = "\t%.7g" * len(QUANTILE_NAMES)


@cache
def quoted(text: str) -> str:
    """The text in ASCII: every byte of its UTF-8 form but letters, digits and `_.-~@+` is written as %XX."""
    return quote(text, safe="@+", errors="surrogateescape")


def key_of(kind: int | str, values: Sequence[str | float]) -> str:
    """A key: its kind and its values, texts quoted, numbers as C's %.17g prints them, joined by `|`."""
    return "|".join([str(kind), *(quoted(one) if isinstance(one, str) else f"{one:.17g}" for one in values)])


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


def key_columns(template: str) -> tuple[str, ...]:
    """The columns of a template's key, in the order of the key."""
    return () if template == ALL else tuple(template.split("+"))


def lookup_file(estimates: pa.Table, limits: pa.Table, applications: Mapping[str, str]) -> bytes:
    """The look-up file of one version of ESTIMATES and LIMITS; the same tables give the same bytes.

    Parameters
    ----------
    estimates : pa.Table
        ESTIMATES of one site and one run; may have no row.
    limits : pa.Table
        LIMITS of the same run; may have no row.
    applications : mapping of str to str
        The application of each job name that the built-in rules do not find (`known_applications`).

    Returns
    -------
    bytes
        ASCII text; its format is described in docs/lookup_file.md.

    Raises
    ------
    InputError
        If neither table has a row, or they have rows of more than one site or run.

    Examples
    --------
    >>> lookup_file(tables["estimates"], tables["limits"], {})[:18]
    b'#walltime-lookup 2'
    """
    both = (estimates, limits)
    run, site = _only(both, "run_id"), _only(both, "site")
    estimate_kinds, limit_kinds = kinds_of(estimates), kinds_of(limits)
    keys, values = _estimate_rows(estimates, estimate_kinds)
    limit_keys, limit_values = _limit_rows(limits, limit_kinds)
    keys += limit_keys + [key_of(NAME_KIND, (name,)) for name in applications]
    values += limit_values + [quoted(name) for name in applications.values()]
    multiplier = LEAST_MULTIPLIER + int(hashlib.sha256(run.encode()).hexdigest(), 16) % MULTIPLIERS
    buckets = max(1, len(keys) // ROWS_PER_BUCKET)
    lines, sizes = _in_buckets(keys, values, multiplier, buckets)
    heading = f"#chain {_chain(estimate_kinds)}\n#limits {_chain(limit_kinds)}\n#columns {' '.join(COLUMNS)}\n"
    facts = {
        "run": run, "site": quoted(site), "newest_end_s": newest_end_of(both), "rows": estimates.num_rows,
        "limits": limits.num_rows, "names": len(applications), "buckets": buckets, "multiplier": multiplier,
    }  # fmt: skip
    return _assembled(facts, heading, lines, sizes, multiplier)


def newest_end_of(tables: Sequence[pa.Table]) -> int:
    """End of the newest job behind tables with a column newest_end_s, s since 1970; 0 where none has a row."""
    return max((pc.max(table["newest_end_s"]).as_py() or 0 for table in tables), default=0)


def _chain(kinds: Mapping[int, str]) -> str:
    return " ".join(f"{rank}:{template}" for rank, template in kinds.items())


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
        raise InputError("tables estimates and limits", f"{len(found)} values of {name}", "one", do)
    return str(found.pop())


def kinds_of(table: pa.Table) -> dict[int, str]:
    """The template of each rank, in order of look-up."""
    ranks, first = np.unique(integers(table.column("chain_rank"))[0], return_index=True)
    return {
        rank: table.column("template")[place].as_py()
        for rank, place in zip(ranks.tolist(), first.tolist(), strict=True)
    }


def _keys(table: pa.Table, kinds: Mapping[int, str], before: str = "") -> list[str]:
    """The key of every row."""
    named = {rank: key_columns(template) for rank, template in kinds.items()}
    columns = {name: table.column(name).to_pylist() for name in {"chain_rank"}.union(*named.values())}
    return [
        key_of(f"{before}{rank}", [columns[name][place] for name in named[rank]])
        for place, rank in enumerate(columns["chain_rank"])
    ]


def _estimate_rows(estimates: pa.Table, kinds: Mapping[int, str]) -> tuple[list[str], list[str]]:
    """Keys and values of all estimates."""
    seconds, ratios = (
        zip(*(estimates.column(f"{unit}_{name}").to_pylist() for name in QUANTILE_NAMES), strict=True)
        for unit in ("runtime_s", "ratio")
    )
    return _keys(estimates, kinds), list(_texts(estimates.column("n_jobs").to_pylist(), seconds, ratios))


def _limit_rows(limits: pa.Table, kinds: Mapping[int, str]) -> tuple[list[str], list[str]]:
    """Keys and values of all limits; a row without a limit has 0 s."""
    columns = zip(*(limits.column(name).to_pylist() for name in LIMIT_COLUMNS), strict=True)
    values = [
        f"{limit_s or 0:.0f}\t{most or 0}\t{n}\t{chance or 0:.3g}\t{status}"
        for limit_s, most, n, chance, status in columns
    ]
    return _keys(limits, kinds, LIMIT_KIND), values


def limit_lines(limits: pa.Table, kinds: Mapping[int, str]) -> Mapping[str, str]:
    """Of each key of some rows of LIMITS its text in the file; `kinds` are the templates of all rows, by rank."""
    return dict(zip(*_limit_rows(limits, kinds), strict=True))


def _texts(
    n_jobs: Sequence[int], seconds: Iterator[tuple[float, ...]], ratios: Iterator[tuple[float | None, ...]]
) -> Iterator[str]:
    for count, own_s, own in zip(n_jobs, seconds, ratios, strict=True):
        yield _VALUES % (count, *own_s) + ("" if own[0] is None else _RATIOS % own)


def _in_buckets(
    keys: Sequence[str], values: Sequence[str], multiplier: int, buckets: int
) -> tuple[list[str], list[int]]:
    """The lines, each with its checksum, in order of bucket and key, and the bytes of every bucket."""
    bucket = hashes_of(keys, multiplier) % buckets
    by_key = sorted(range(len(keys)), key=lambda place: keys[place])
    order = np.array(by_key)[np.argsort(bucket[by_key], kind="stable")].tolist()
    for one, other in pairwise(order):
        if keys[one] == keys[other]:
            raise InputError("tables estimates and limits", "two rows with one key", "one row a key", "run again")
    texts = [f"{keys[place]}\t{values[place]}" for place in order]
    checks = hashes_of(texts, multiplier).tolist()
    lines = [f"{text}\t{check}\n" for text, check in zip(texts, checks, strict=True)]
    sizes = np.bincount(bucket[order], [len(line) for line in lines], buckets)
    return lines, sizes.astype(np.int64).tolist()
