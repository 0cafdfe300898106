"""Combines records into one JOBS table: removes duplicates, numbers restarts and sorts.

The bytes of the table depend neither on the order of the records nor on how they were split.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.arrays import (
    CATEGORY,
    Bools,
    Ints,
    arrow,
    integers,
    nulls,
    one_piece,
    replaced,
    row_codes,
    texts,
    unknown,
)
from pipeline.tables import JOB, JOBS

FORMAT = pa.field("format", pa.int32())
"""Which of several lists of columns makes a row the same record."""

ORDERING = ("submit_s", "job_id", "restart", "cluster", "site")
"""What `in_order` goes by."""

_OF_ITS_RECORD = {
    "site", "cluster", "job_id", "restart", "submit_s", "start_s", "end_s", "runtime_s", "is_lower_bound",
    "suspended_s", "procs", "state", "source_file", "source_line", "flag", "burst_id", "group_id",
}  # fmt: skip
SUPPLEMENTED = tuple(name for name in JOBS.schema().names if name not in _OF_ITS_RECORD)
"""Columns that a job's kept record takes from its other records where it has null: exports differ in their columns.

What tells how a job went (times, size, state) is the kept record's alone, null or not.
"""

_POSITION = ("source_file", "source_line")
_NATURAL = r"^(?P<n1>-?\d{0,18})(?P<t1>\D*)(?P<n2>\d{0,18})"
_ENDING = re.compile(r"^-?[0-9]*")
_LAST = np.iinfo(np.int64).max
_TOO_LONG = 10**18
_POWERS = 10 ** np.arange(1, 18, dtype=np.int64)

Ranks = dict[str, Ints]
"""By column, the rank of each row's value among the column's values; null is -1. Equal values, equal ranks."""


@dataclass(frozen=True, slots=True)
class Combined:
    """jobs: JOBS, and FORMAT where there are several, as `in_order` leaves them.

    superseded: records of which another reading was kept.
    n_reused_ids: job ids that more than one whole job's record bears.
    """

    jobs: pa.Table
    superseded: pa.Table
    n_reused_ids: int


def combine(jobs: pa.Table, *same_record: Sequence[str]) -> Combined:
    """JOBS with a PART column, in any order, made canonical: duplicates out, restarts numbered, rows sorted.

    Two records are the same one read twice where job id, part and the `same_record` columns agree (or, without a
    submit time, all columns but their position); the later-ending is kept, then the one that sorts last, and what it
    does not tell comes from the others (SUPPLEMENTED). The other
    records of a job id are its restarts: whole jobs first, then parts, each by submit, start, part, end and the rest.
    Where there are several lists of columns, a FORMAT column says which is a row's own. Two records that both tell
    start and end, and not alike, are never one: exports that drop array indices give all tasks one id.
    """
    jobs = with_known_clusters(jobs)
    numbers = as_integers(jobs["job_id"])
    repeated = np.flatnonzero(_repeated(numbers if numbers is not None else _rank(jobs["job_id"])))
    superseded, n_reused = jobs.slice(0, 0), 0
    if len(repeated):
        jobs, superseded, n_reused = _without_repeats(jobs.combine_chunks(), repeated, same_record)
        numbers = None
    jobs = in_order(jobs.select([name for name in jobs.column_names if name != "part"]), numbers)
    return Combined(jobs, superseded.select(JOBS.schema().names), n_reused)


def _repeated(codes: Ints) -> Bools:
    """Rows whose code another row bears too."""
    if bool((np.diff(codes) > 0).all()):
        return np.zeros(len(codes), np.bool_)
    ranked = np.sort(codes)
    twice = ranked[1:][ranked[1:] == ranked[:-1]]
    return np.isin(codes, twice) if len(twice) else np.zeros(len(codes), np.bool_)


def as_integers(ids: pa.ChunkedArray) -> Ints | None:
    """Ids as int64, where all are integers of up to 18 digits without a needless zero or sign; else None.

    All may have one ending behind the number, as the name of PBS's server.
    """
    ending = _ENDING.sub("", ids[0].as_py()) if len(ids) else ""
    if ending:
        if not pc.all(pc.ends_with(ids, ending)).as_py():
            return None
        ids = pc.utf8_slice_codeunits(ids, 0, -len(ending))
    try:
        numbers = ids.cast(pa.int64())
    except pa.ArrowInvalid:
        return None
    values, is_null = integers(numbers)
    if is_null.any() or (len(values) and not (values.max() < _TOO_LONG and values.min() > -_TOO_LONG)):
        return None
    # A text that is read as this number, and is no longer than it, is how the number is written.
    n_digits = np.searchsorted(_POWERS, np.abs(values), side="right") + 1 + (values < 0)
    return values if np.array_equal(n_digits, integers(pc.binary_length(ids))[0]) else None


def _without_repeats(
    jobs: pa.Table, repeated: Ints, same_record: Sequence[Sequence[str]]
) -> tuple[pa.Table, pa.Table, int]:
    """Jobs with restarts numbered and superseded records taken out; those; how many ids are reused."""
    rows = jobs.take(arrow(repeated))
    ranks = ranked(rows.drop(["format"]) if "format" in rows.column_names else rows)
    # Its values, not their ranks: 0 is a whole job's, also where none of these rows is one.
    ranks["part"] = integers(rows["part"])[0]
    content = [name for name in ranks if name not in _POSITION]
    own, ranks = with_identity(ranks, rows, same_record)
    identity = ["job_id", "part", *own]
    order = order_of(ranks, [*identity, "end_s", "runtime_s", *content, *_POSITION])
    is_last = ~same_as_next(ranks, order, identity, content) | ran_at_other_times(ranks, order)
    kept, lost = order[is_last], order[~is_last]
    place, n_reused = restarts({name: rank[kept] for name, rank in ranks.items()}, content)
    restart = integers(jobs["restart"])[0].copy()
    restart[repeated[kept]] = place
    jobs = replaced(jobs, "restart", arrow(restart))
    for name, row in value_sources(ranks, order, is_last).items():
        places = np.arange(jobs.num_rows)
        places[repeated[kept]] = repeated[row]
        jobs = replaced(jobs, name, jobs[name].take(arrow(places)))
    is_gone = np.zeros(jobs.num_rows, np.bool_)
    is_gone[repeated[lost]] = True
    return jobs.filter(arrow(~is_gone)), jobs.filter(arrow(is_gone)), n_reused


def ranked(rows: pa.Table) -> Ranks:
    """The ranks of every column that has a value; of `job_id` those of the job (JOB), whatever else shares its id."""
    ranks = {name: _rank(rows[name]) for name in rows.column_names if rows[name].null_count < len(rows)}
    return ranks | {"job_id": row_codes(*(ranks[name] for name in JOB if name in ranks))}


def with_known_clusters(rows: pa.Table) -> pa.Table:
    """The records, where an unknown cluster is that of the others with the record's id, if these name only one.

    So a log without the column `cluster` and one with it tell of the same jobs.
    """
    if rows["cluster"].null_count in (0, len(rows)):
        return rows
    ids, clusters = _rank(rows["job_id"]), _rank(rows["cluster"])
    known = np.flatnonzero(clusters >= 0)
    source = np.full(len(rows), -1)
    source[ids[known]] = known
    is_several = np.zeros(len(rows), np.bool_)
    is_several[ids[known[clusters[source[ids[known]]] != clusters[known]]]] = True
    fills = (clusters < 0) & (source[ids] >= 0) & ~is_several[ids]
    places = np.where(fills, source[ids], np.arange(len(rows)))
    return replaced(rows, "cluster", one_piece(rows["cluster"]).take(arrow(places)))


def with_identity(ranks: Ranks, rows: pa.Table, same_record: Sequence[Sequence[str]]) -> tuple[list[str], Ranks]:
    """Names of the ranks that make a row the same record, and the ranks with those.

    What a row's own format does not name counts as equal in all rows of that format, and to no value of another's.
    """
    if len(same_record) == 1:
        return list(same_record[0]), ranks
    formats = integers(rows["format"])[0]
    named = sorted({name for names in same_record for name in names})
    counts = {
        f"own {name}": np.where(np.array([name in names for names in same_record])[formats], ranks[name], -2)
        for name in named
        if name in ranks
    }
    return list(counts), ranks | counts


def restarts(ranks: Ranks, content: Sequence[str]) -> tuple[Ints, int]:
    """Place of each record among those of its job id; how many ids several whole jobs bear."""
    last = {name: np.where(rank < 0, _LAST, rank) for name, rank in ranks.items()}
    part = last["part"] if "part" in last else np.zeros(len(last["job_id"]), np.int64)
    order = order_of(
        last | {"is_part": np.minimum(part, 1)},
        ["job_id", "is_part", "submit_s", "start_s", "part", "end_s", *content, *_POSITION],
    )
    ids = ranks["job_id"][order]
    first = np.flatnonzero(np.diff(ids, prepend=-1) != 0)
    restart = np.empty(len(ids), np.int64)
    restart[order] = np.arange(len(ids)) - np.repeat(first, np.diff(first, append=len(ids)))
    whole = np.bincount(ids, weights=part[order] == 0)
    return restart, int(np.count_nonzero(whole > 1))


def same_as_next(ranks: Ranks, order: Ints, identity: Sequence[str], content: Sequence[str]) -> Bools:
    """Whether each row, in this order, is the same record as the row after it."""

    def agree(names: Sequence[str]) -> Bools:
        ranked = [ranks[name][order] for name in names if name in ranks]
        same: Bools = np.logical_and.reduce([r[:-1] == r[1:] for r in ranked])
        return same

    has_submit = ranks["submit_s"][order][:-1] >= 0 if "submit_s" in ranks else np.zeros(len(order) - 1, np.bool_)
    return np.append(np.where(has_submit, agree(identity), agree(content)), False)


def value_sources(ranks: dict[str, Ints], order: Ints, is_last: Bools) -> dict[str, Ints]:
    """By column, the row from which each kept row (`order[is_last]`) has its value, where any is another's.

    Rows are in order of the job they are records of; the last record of each is kept. A null is supplemented by the
    nearest record before that tells the value, if it started when the kept one did.
    """
    kept = np.flatnonzero(is_last)
    first = np.append(0, kept[:-1] + 1)[: len(kept)]
    start = ranks["start_s"][order] if "start_s" in ranks else np.zeros(len(order), np.int64)
    found = {}
    for name in SUPPLEMENTED:
        if name not in ranks:
            continue
        known = np.where(ranks[name][order] >= 0, np.arange(len(order)), -1)
        place = np.maximum.accumulate(known)[kept]
        place = np.where((place >= first) & (start[place] == start[kept]), place, kept)
        if (place != kept).any():
            found[name] = order[place]
    return found


def ran_at_other_times(ranks: Ranks, order: Ints) -> Bools:
    """Whether each row, in this order, ran at another time than the row after it, as far as both tell."""
    apart = np.zeros(max(len(order) - 1, 0), np.bool_)
    if "start_s" in ranks and "end_s" in ranks:
        start, end = ranks["start_s"][order], ranks["end_s"][order]
        known = (np.minimum(start, end)[:-1] >= 0) & (np.minimum(start, end)[1:] >= 0)
        apart = known & ((start[:-1] != start[1:]) | (end[:-1] != end[1:]))
    return np.append(apart, np.zeros(min(len(order), 1), np.bool_))


def order_of(ranks: Ranks, names: Sequence[str]) -> Ints:
    """Row numbers in the order of these columns, the first of them the most significant."""
    keys = [ranks[name] for name in dict.fromkeys(names) if name in ranks]
    return np.lexsort(keys[::-1])


def in_order(jobs: pa.Table, numbers: Ints | None = None) -> pa.Table:
    """By submit (unknown last), job id (its numbers as numbers), restart, cluster, site.

    numbers: `as_integers` of the ids.
    """
    numbers = as_integers(jobs["job_id"]) if numbers is None else numbers
    keys = [
        submits(jobs),
        *([numbers] if numbers is not None else _natural_keys(jobs["job_id"])),
        integers(jobs["restart"])[0],
        *(_rank(jobs[name]) for name in ("cluster", "site") if _may_differ(jobs[name])),
    ]
    order = np.lexsort(keys[::-1])
    if bool((np.diff(order) == 1).all()):
        return jobs
    return jobs.unify_dictionaries().take(arrow(order))


def _may_differ(names: pa.ChunkedArray) -> bool:
    if names.null_count == len(names) or not names.num_chunks:
        return False
    names = names.unify_dictionaries() if names.type == CATEGORY else names.dictionary_encode()
    return len(names.chunk(0).dictionary) > 1 or names.null_count > 0


def follows(before: pa.Table, jobs: pa.Table) -> bool:
    """Whether jobs stand in order, and after the last one of the table before them."""
    joint = pa.concat_tables([before.slice(max(before.num_rows - 1, 0)), jobs.slice(0, 1)]).unify_dictionaries()
    return in_order(jobs) is jobs and in_order(joint) is joint


def leading_keys(jobs: pa.Table) -> tuple[Ints, Ints]:
    """The first two keys of `in_order`, comparable between tables: submit, and the number the job id starts with."""
    numbers = as_integers(jobs["job_id"])
    return submits(jobs), numbers if numbers is not None else _natural_keys(jobs["job_id"])[0]


def submits(jobs: pa.Table) -> Ints:
    """Submit instants, the largest int64 where unknown."""
    submit, is_unknown = integers(jobs["submit_s"])
    return np.where(is_unknown, _LAST, submit)


def _natural_keys(ids: pa.ChunkedArray) -> list[Ints]:
    """Keys, most significant first, that put 9_2 before 9_10, and both before 10."""
    parts = pc.extract_regex(ids.combine_chunks(), _NATURAL)
    first, word, second = (parts.field(i) for i in range(3))
    return [_number_key(first), _rank(word), _number_key(second), _rank(ids)]


def _number_key(digits: pa.Array) -> Ints:
    """The number; -1 where there is none."""
    is_missing = integers(pc.binary_length(digits))[0] == 0
    try:
        numbers = integers(pc.utf8_lpad(digits, 1, "0").cast(pa.int64()))[0]
    except pa.ArrowInvalid:
        words = digits.to_pylist()
        numbers = np.array([int(word) if word.strip("-") else -1 for word in words], np.int64)
    return np.where(is_missing, -1, numbers)


def _rank(column: pa.Array | pa.ChunkedArray) -> Ints:
    array = one_piece(column)
    encoded = array if array.type == CATEGORY else array.dictionary_encode()
    place = np.empty(len(encoded.dictionary), np.int64)
    place[integers(pc.array_sort_indices(encoded.dictionary))[0]] = np.arange(len(place))
    is_null = nulls(encoded)
    codes = np.where(is_null, 0, integers(encoded.indices)[0])
    return np.where(is_null, -1, place[codes] if len(place) else -1)


def with_sorted_categories(jobs: pa.Table) -> pa.Table:
    """Every category's dictionary sorted, and without values no row has."""
    columns = [_sorted_category(column) if column.type == CATEGORY else column for column in jobs.columns]
    return pa.table(columns, schema=jobs.schema)


def _sorted_category(chunks: pa.ChunkedArray) -> pa.Array:
    if chunks.null_count == len(chunks):
        return unknown(len(chunks), CATEGORY)
    column = one_piece(chunks)
    words = column.dictionary.to_pylist()
    used = pc.unique(column.indices).to_pylist()
    kept = sorted(words[i] for i in used if i is not None)
    if kept == words:
        return column
    place = {word: rank for rank, word in enumerate(kept)}
    lookup = arrow(np.array([place.get(word, 0) for word in words], np.int32))
    return pa.DictionaryArray.from_arrays(pc.take(lookup, column.indices), texts(kept))
