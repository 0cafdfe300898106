"""Groups: jobs that share the template's values (Smith, Foster & Taylor 1998, section 2), and jobs in order of group.

Ids of groups are hashes. To sort a large log, rows go to buckets by the first digits of their group's id; each bucket
is sorted in memory, so that groups can be computed a few at a time.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline import large_tables
from pipeline.arrays import Bools, Ints, category_codes, grouped_jobs, proc_seconds, replaced, tally, tally_of
from pipeline.axes import gpu_types
from pipeline.group.axis import COUNTED, axes_and_counts
from pipeline.group.observations import SPAN, first_and_last_s
from pipeline.group.templates import ALWAYS, JobCodes, sizes_of_groups
from pipeline.large_tables import LargeTable, parts_of, stored
from pipeline.report import Report, Tally, joined_report, total
from pipeline.settings import GroupSettings
from pipeline.storage import widened
from pipeline.tables import GROUPED_JOBS, GROUPS, JOBS

Value = str | float | None


def assign_groups(jobs: pa.Table, settings: GroupSettings) -> tuple[pa.Table, Report]:
    """JOBS with `group_id` set for every unflagged job that has at least one template value.

    A group's id is a hash of site, template and values: the same group has the same id every night.

    Parameters
    ----------
    jobs : pa.Table
        Flagged JOBS.
    settings : GroupSettings
        The template.

    Returns
    -------
    table : pa.Table
        JOBS with `group_id`.
    report : Report
        Jobs with and without a group.

    Examples
    --------
    >>> table, _ = assign_groups(tables["jobs_flagged"], GroupSettings(template=("user",)))
    >>> table.num_rows == tables["jobs"].num_rows
    True
    """
    assigned = Assigned(settings)
    return assigned.part(jobs), assigned.report()


def assign_stored(jobs: LargeTable, settings: GroupSettings, folder: Path | None) -> tuple[LargeTable, Report]:
    """What `assign_groups` gives, with a part of the jobs in memory at a time; a folder gets a file of them."""
    assigned = Assigned(settings)
    table = stored(map(assigned.part, parts_of(jobs)), JOBS, folder, "jobs")
    return table, assigned.report()


@dataclass(slots=True)
class Assigned:
    """What is known of the groups of the jobs so far."""

    settings: GroupSettings
    _ids: set[str] = field(default_factory=set)
    _filled: set[str] = field(default_factory=set)
    _reports: list[Report] = field(default_factory=list)

    def part(self, jobs: pa.Table) -> pa.Table:
        """A part of JOBS with `group_id` set."""
        template = self.settings.columns
        kept = pc.is_null(jobs.column("flag")).to_numpy()
        codes, rows = _distinct(jobs, template)
        ids, known = _group_ids(jobs.take(pa.array(rows)), template)
        grouped = kept & known[codes]
        indices = pa.array(codes.astype(np.int32), mask=~grouped)
        named = pa.DictionaryArray.from_arrays(indices, pa.array(ids, pa.string()))
        column = named.cast(pa.string()).dictionary_encode()
        self._ids.update(column.dictionary.to_pylist())
        self._filled.update(name for name in template if jobs.column(name).null_count < jobs.num_rows)
        proc_s, reasons = proc_seconds(jobs), {"flagged": ~kept, "no_template_values": kept & ~grouped}
        aside = {reason: tally(proc_s, chosen) for reason, chosen in reasons.items()}
        self._reports.append(Report("group", "job", tally(proc_s), tally(proc_s, grouped), aside))
        return replaced(jobs, "group_id", column)

    def report(self) -> Report:
        """Jobs with and without a group; a note on columns of the template that have no values."""
        whole = joined_report(self._reports)
        aside = {reason: own for reason, own in whole.set_aside.items() if own.rows}
        empty = tuple(name for name in self.settings.columns if name not in self._filled)
        notes = _empty_note(self.settings, empty)
        return replace(whole, set_aside=aside, facts={"groups": len(self._ids)}, notes=notes)


def describe_groups(jobs: pa.Table, settings: GroupSettings) -> tuple[pa.Table, Report]:
    """GROUPS: one row per group in order of id: the template's values, job and size counts, first and last time."""
    grouped = grouped_jobs(jobs, (*SPAN, *COUNTED))
    codes, ids = category_codes(grouped, "group_id")
    rows = np.flatnonzero(pc.is_valid(jobs.column("group_id")).to_numpy())
    values = jobs.select([*dict.fromkeys((*ALWAYS, *settings.columns))]).take(
        pa.array(rows[_first_rows(codes, len(ids))])
    )
    cards = gpu_types(values)
    values = replaced(values, "gpu_type", cards)
    first_s, last_s = first_and_last_s(grouped, codes, len(ids))
    shown = (*settings.columns, "gpu_type")
    labels = [_label(shown, row) for row in _values(values, shown)]
    axes, counts = axes_and_counts(grouped, codes, len(ids), settings.axis)
    table = GROUPS.build(
        group_id=ids,
        site=values.column("site"),
        template=["+".join(settings.columns)] * len(ids),
        label=labels,
        **{name: values.column(name) for name in settings.columns},
        gpu_type=cards,
        axis=axes,
        n_jobs=np.bincount(codes, minlength=len(ids)),
        n_sizes=sizes_of_groups(codes, counts, len(ids)),
        first_start_s=first_s,
        last_end_s=last_s,
    )
    whole = tally_of(grouped)
    three = int((table.column("n_sizes").to_numpy() >= 3).sum())
    return table, Report("describe", "job", whole, whole, facts={"groups": len(ids), "groups_3_sizes": three}).check()


def _empty_note(settings: GroupSettings, empty: tuple[str, ...]) -> tuple[str, ...]:
    if not empty:
        return ()
    left = [name for name in settings.columns if name not in empty]
    found = f"groups are formed by {' and '.join(left)} alone" if left else "there are no groups, laws or predictions"
    do = "a template with a column that has values, such as requested_s or queue, may separate jobs better"
    return (f"this log has no values for {', '.join(empty)}: {found}; {do}",)


def _distinct(jobs: pa.Table, template: tuple[str, ...]) -> tuple[Ints, Ints]:
    """A code per job for its site and template values, and one row of each code."""
    codes = JobCodes(jobs).of(template)
    return codes, _first_rows(codes, int(codes.max(initial=-1)) + 1)


def _first_rows(codes: Ints, n_codes: int) -> Ints:
    rows = np.full(n_codes, len(codes), np.int64)
    np.minimum.at(rows, codes, np.arange(len(codes)))
    return rows


def _group_ids(values: pa.Table, template: tuple[str, ...]) -> tuple[list[str], Bools]:
    rows = _values(values, template)
    sites, cards = values.column("site").to_pylist(), gpu_types(values).to_pylist()
    named = [
        json.dumps([site, list(zip(template, row, strict=True)), *([] if card is None else [card])])
        for site, row, card in zip(sites, rows, cards, strict=True)
    ]
    ids = [hashlib.blake2b(text.encode(), digest_size=8).hexdigest() for text in named]
    return ids, np.array([any(v is not None for v in row) for row in rows], bool)


def _values(table: pa.Table, template: tuple[str, ...]) -> list[tuple[Value, ...]]:
    return list(zip(*(table.column(name).to_pylist() for name in template), strict=True))


def _label(template: tuple[str, ...], row: tuple[Value, ...]) -> str:
    shown = (f"{value:.15g}" if isinstance(value, float) else value for value in row)
    return " ".join(f"{name}={value}" for name, value in zip(template, shown, strict=True) if value is not None)


_NEEDED = (*ALWAYS, *COUNTED, "problem_size", "submit_s", "start_s", "end_s", "runtime_s", "energy_j", "is_lower_bound")
_DIGITS = 4
_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


def sort_by_group(jobs: LargeTable, settings: GroupSettings, folder: Path | None) -> tuple[LargeTable, Report]:
    """GROUPED_JOBS: the jobs that have a group in order of its id, with the columns of the template; others are null.

    Parameters
    ----------
    jobs : pa.Table or StoredTable
        Grouped JOBS.
    settings : GroupSettings
        The template.
    folder : Path or None
        Where the table is written; None: it stays in memory.

    Returns
    -------
    table : pa.Table or StoredTable
        GROUPED_JOBS.
    report : Report
        Jobs with a group.
    """
    names = tuple(dict.fromkeys((*_NEEDED, *settings.columns)))
    parts = (grouped_jobs(part, names) for part in parts_of(jobs, ("group_id", *names)))
    n_buckets = 1 if folder is None else max(1, -(-jobs.num_rows // large_tables.PART_ROWS))
    counted: list[Tally] = []
    tables = (GROUPED_JOBS.check(widened(one, GROUPED_JOBS)) for one in _sorted(parts, n_buckets, folder, counted))
    table = stored(tables, GROUPED_JOBS, folder, GROUPED_JOBS.name)
    whole = total(counted)
    return table, Report("sort", "job", whole, whole).check()


def _sorted(parts: Iterator[pa.Table], n_buckets: int, folder: Path | None, counted: list[Tally]) -> Iterator[pa.Table]:
    if n_buckets == 1:
        buckets: Iterator[pa.Table] = iter([pa.concat_tables(parts)])
    else:
        buckets = _buckets(parts, n_buckets, folder)
    for bucket in buckets:
        table = bucket.unify_dictionaries().combine_chunks()
        counted.append(tally_of(table))
        yield table.take(pa.array(np.argsort(category_codes(table, "group_id")[0], kind="stable")))


def _buckets(parts: Iterator[pa.Table], n_buckets: int, folder: Path | None) -> Iterator[pa.Table]:
    """The rows of each bucket, in their order; they wait in files until all have been read."""
    with TemporaryDirectory(prefix=".buckets.", dir=folder) as held:
        paths = [Path(held) / f"{place}.arrows" for place in range(n_buckets)]
        schema = _spill(parts, paths)
        for path in paths:
            yield _read(path, schema)
            path.unlink()


def _spill(parts: Iterator[pa.Table], paths: Sequence[Path]) -> pa.Schema:
    schema = None
    with ExitStack() as stack:
        writers: list[pa.ipc.RecordBatchStreamWriter] = []
        for part in map(_with_ids_as_texts, parts):
            if schema is None:
                schema = part.schema
                sinks = [stack.enter_context(pa.OSFile(str(path), "wb")) for path in paths]
                writers = [stack.enter_context(pa.ipc.new_stream(s, schema, options=_OPTIONS)) for s in sinks]
            for writer, rows in zip(writers, _by_bucket(part, len(paths)), strict=True):
                writer.write_table(rows)
    assert schema is not None  # nosec B101 # parts_of gives at least one
    return schema


def _with_ids_as_texts(part: pa.Table) -> pa.Table:
    """Each batch of a file would carry the ids of all groups as its dictionary."""
    place = part.column_names.index("group_id")
    return part.set_column(place, "group_id", part.column("group_id").cast(pa.string()))


def _by_bucket(part: pa.Table, n_buckets: int) -> list[pa.Table]:
    codes, ids = category_codes(part, "group_id")
    of_id = np.array([int(name[:_DIGITS], 16) * n_buckets >> 4 * _DIGITS for name in ids], np.int64)
    bucket = of_id[codes]
    order = np.argsort(bucket.astype(np.int16), kind="stable")
    ordered = part.unify_dictionaries().combine_chunks().take(pa.array(order))
    counts = np.bincount(bucket, minlength=n_buckets)
    return [ordered.slice(int(end - n), int(n)) for end, n in zip(np.cumsum(counts), counts, strict=True)]


def _read(path: Path, schema: pa.Schema) -> pa.Table:
    with pa.OSFile(str(path)) as source, pa.ipc.open_stream(source) as reader:
        return pa.Table.from_batches(list(reader), schema)
