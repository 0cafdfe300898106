"""Computes a table group by group, from jobs in order of their group, with a part of them in memory at a time."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from pipeline.core.arrays import category_codes
from pipeline.core.report import Fact, Report, total
from pipeline.core.stored_table import LargeTable, parts_of
from pipeline.core.tables import GROUPED_JOBS

PART_ROWS = 1 << 20
"""Jobs that are in memory at a time, where no single group has more."""

Stage = Callable[[pa.Table], tuple[pa.Table, Report]]


def groups_of(grouped: LargeTable) -> Iterator[pa.Table]:
    """GROUPED_JOBS in parts of whole groups, of about PART_ROWS jobs each; an empty part where there are none."""
    held: list[pa.Table] = []
    n_left = grouped.num_rows
    for part in parts_of(grouped, PART_ROWS, GROUPED_JOBS.schema().names):
        n_left -= part.num_rows
        last = _first_of_last_group(part) if n_left else part.num_rows
        if last or not grouped.num_rows:
            yield pa.concat_tables([*held, part.slice(0, last)]).unify_dictionaries()
            held = []
        held.append(part.slice(last))


def each_part(grouped: LargeTable, stage: Stage) -> tuple[pa.Table, Report]:
    """The table and report of a stage that computes each group by itself, from parts of whole groups."""
    done = [stage(part) for part in groups_of(grouped)]
    if len(done) == 1:
        return done[0]
    table = pa.concat_tables([table for table, _ in done]).unify_dictionaries()
    return table, joined_report([report for _, report in done])


def joined_report(reports: Sequence[Report]) -> Report:
    """The report of a stage on all groups from those on parts of them: all numbers are sums."""
    reasons = dict.fromkeys(reason for report in reports for reason in report.set_aside)
    aside = {reason: total(r.set_aside[reason] for r in reports if reason in r.set_aside) for reason in reasons}
    facts: dict[str, Fact] = {}
    for name in dict.fromkeys(name for report in reports for name in report.facts):
        facts[name] = sum(value for r in reports if isinstance(value := r.facts.get(name), int | float))
    first, notes = reports[0], tuple(dict.fromkeys(note for report in reports for note in report.notes))
    seen, kept = total(r.seen for r in reports), total(r.kept for r in reports)
    return Report(first.stage, first.unit, seen, kept, aside, facts, notes).check()


def _first_of_last_group(part: pa.Table) -> int:
    """The first row of the last group of a part in order of groups."""
    codes, _ = category_codes(part.select(["group_id"]), "group_id")
    return int(np.searchsorted(codes, codes[-1])) if codes.size else 0
