"""Groups: jobs that share the template's values (Smith, Foster & Taylor 1998, section 2), and jobs in order of group.

Ids of groups are hashes. In order of group, groups can be computed a few at a time; DuckDB sorts a large log.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline import large_tables
from pipeline.arrays import Bools, Ints, category_codes, grouped_jobs, proc_seconds, replaced, tally, tally_of
from pipeline.group.axis import COUNTED, axes_and_counts
from pipeline.group.observations import SPAN, first_and_last_s
from pipeline.group.templates import ALWAYS, JobCodes, sizes_of_groups
from pipeline.large_tables import LargeTable, StoredTable, parts_of, rows_of, sorted_rows, stored
from pipeline.report import Report, Tally, joined_report, total
from pipeline.schema import gpu_types
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
    if isinstance(jobs, StoredTable) and jobs.num_rows > large_tables.PART_ROWS:
        parts = sorted_rows(jobs, ("group_id", *names), "group_id")
    else:
        table = grouped_jobs(rows_of(jobs, columns=("group_id", *names)), names).unify_dictionaries().combine_chunks()
        parts = iter([table.take(pa.array(np.argsort(category_codes(table, "group_id")[0], kind="stable")))])
    counted: list[Tally] = []

    def checked() -> Iterator[pa.Table]:
        for part in parts:
            counted.append(tally_of(part))
            yield GROUPED_JOBS.check(widened(part, GROUPED_JOBS))

    found = stored(checked(), GROUPED_JOBS, folder, GROUPED_JOBS.name)
    whole = total(counted)
    return found, Report("sort", "job", whole, whole).check()
