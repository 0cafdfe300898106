"""Checks of a version before it is published: one function each, in a registry. A check yields a finding for everything
that it rejects. Checks that compare need a version that was published before; on the first night they are skipped.

Types, units and nullability are checked where a table is written, and compared with those of earlier releases by a test
(`tools/table_contract.py`), so that no night has to.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Literal

import pyarrow.compute as pc

from pipeline.arrays import DAY_S
from pipeline.errors import InputError, printable
from pipeline.large_tables import StoredTable, parts_of
from pipeline.publish.manifest import Manifest, TableEntry, load_manifest, opened_rows
from pipeline.report import Report, Tally
from pipeline.schema import TableKind
from pipeline.settings import CheckSettings, Mode
from pipeline.storage import read_rows
from pipeline.tables import ASCENDING, ESTIMATES, JOBS, PREDICTIONS, SET_LATER, TABLES, TEMPLATES

LEAST_OF_KEPT_JOBS = {"runtime_s": 0, "procs": 1}
"""Least values of JOBS in rows without a flag: a job that contradicts itself keeps its numbers and has one."""

FOLLOWED = ("jobs", "groups", "observations", "fits", "predictions", "scalability", "estimates")
"""Tables whose rows are compared from night to night; bursts and unreadable lines come and go."""

OF_TEMPLATE = ("groups", "observations", "fits", "predictions", "scalability")
"""Tables whose size depends on the template: a night that changes it is not compared in them."""

WATCHED = {
    JOBS.name: tuple(c.name for c in JOBS.columns if not c.is_required and c.name not in SET_LATER),
    PREDICTIONS.name: ("runtime_s", "runtime_s_lo95", "runtime_s_hi95"),
    ESTIMATES.name: tuple(f"runtime_s_q{q}" for q in (10, 50, 80, 90, 95, 99)),
}
"""Columns whose shares of nulls are compared. Those of JOBS come from the log, so that a lost field shows."""

LEVELS: dict[str, tuple[tuple[str, float], ...]] = {
    "predict": (("in_80_later", 0.80), ("in_95_later", 0.95)),
    "learn": (("coverage_80", 0.80), ("coverage_q80", 0.80), ("coverage_q90", 0.90), ("coverage_q95", 0.95)),
}
"""Per stage the facts that are shares of later jobs, with their nominal levels."""

ROWS_GONE = 0.5
"""The largest share of a table's rows that may be gone: a log that lost half its jobs is a fault of its export."""

GROWTH = 2.0
"""The largest factor by which a table may grow."""

LEAST_ROWS = 20
"""Tables other than JOBS that had fewer rows are not compared: one group more or less is a large share."""

MORE_NULLS = 0.5
"""The largest rise of a column's share of nulls, in tables of at least LEAST_ROWS_OF_NULLS."""

LEAST_ROWS_OF_NULLS = 100
SHORTFALL = 0.1
"""The largest shortfall of a share of at least LEAST_SCORED later jobs."""

LEAST_SCORED = 200
FINDINGS_SHOWN = 4
SCORED = {"predict": "past_jobs", "learn": "n_scored"}


@dataclass(frozen=True, slots=True)
class Night:
    """What the checks look at: the manifest of the night's tables, their files, the time, and what the site set.

    `before`: the tables published before; `nothing_before`: why there are none.
    """

    made: Manifest
    files: Mapping[str, Path]
    now_s: float
    settings: CheckSettings
    before: Mapping[str, TableEntry] | None = None
    nothing_before: str = "no version was published before"


def version_before(manifest: Manifest | None, site: str, *, published: bool = False) -> tuple[Manifest | None, str]:
    """The version to compare with, or None and the reason.

    It is the current version. Where the current version itself is `published` and checked, it is the one before it.
    """
    if manifest is None or (published and not manifest.previous):
        return None, "no version was published before"
    try:
        before = load_manifest(manifest.root, manifest.previous[0].folder) if published else manifest
    except InputError as error:
        return None, str(error).rstrip(".")
    if before.site != site:
        return None, f"the version published before is of site {printable(before.site)}"
    return before, ""


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check rejects: where, what was found, what was expected."""

    where: str
    found: str
    expected: str

    def __str__(self) -> str:
        return f"{self.where}: found {self.found}, expected {self.expected}"


Check = Callable[[Night], Iterator[Finding]]


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The outcome of one check: passed, failed with findings, or skipped with a reason."""

    check: str
    mode: Mode
    state: Literal["passed", "failed", "skipped"]
    reason: str = ""
    findings: tuple[Finding, ...] = ()

    def __str__(self) -> str:
        """The findings of a failed check in one line; further ones than the first few are counted."""
        more = len(self.findings) - FINDINGS_SHOWN
        shown = "; ".join(map(str, self.findings[:FINDINGS_SHOWN]))
        return f"Check {self.check} failed: {shown}{f'; and {more} more' if more > 0 else ''}."


def check_night(night: Night) -> tuple[CheckResult, ...]:
    """The results of all checks, in the order of the registry."""
    return tuple(_result(name, night) for name in CHECKS)


def _result(name: str, night: Night) -> CheckResult:
    mode: Mode = getattr(night.settings, name).mode
    if mode == "off":
        return CheckResult(name, mode, "skipped", reason="off")
    if name in COMPARING and night.before is None:
        return CheckResult(name, mode, "skipped", reason=night.nothing_before)
    findings = tuple(CHECKS[name](night))
    return CheckResult(name, mode, "failed" if findings else "passed", findings=findings)


def fewer_rows(night: Night) -> Iterator[Finding]:
    """Tables that have lost more than a share of their rows, and the jobs that cleaning kept likewise."""
    for name, before, now in _row_counts(night):
        if now < (least := (1 - ROWS_GONE) * before):
            yield Finding(name, f"{now:,} rows", f"at least {least:,.0f}, as the version before has {before:,}")


def more_rows(night: Night) -> Iterator[Finding]:
    """Tables that have grown by more than a factor."""
    for name, before, now in _row_counts(night):
        if before >= LEAST_ROWS and now > (most := GROWTH * before):
            yield Finding(name, f"{now:,} rows", f"at most {most:,.0f}, as the version before has {before:,}")


def _row_counts(night: Night) -> Iterator[tuple[str, int, int]]:
    """Per followed table its name and its rows before and now; also the jobs without a flag, which cleaning kept."""
    before, now = night.before or {}, night.made.tables
    not_compared = OF_TEMPLATE if _has_other_template(night) else ()
    for name in FOLLOWED:
        if name in before and name not in not_compared and (before[name].rows >= LEAST_ROWS or name == JOBS.name):
            yield name, before[name].rows, now[name].rows if name in now else 0
    kept = [_nulls(tables[JOBS.name]).get("flag") for tables in (before, now) if JOBS.name in tables]
    if len(kept) == 2 and kept[0] is not None and kept[1] is not None:
        yield "jobs that cleaning kept", kept[0], kept[1]


def _nulls(table: TableEntry) -> dict[str, int]:
    return {column.name: column.nulls for column in table.columns}


def _has_other_template(night: Night) -> bool:
    """Whether the night's jobs are grouped by another template than those of the version before."""
    if TEMPLATES.name not in night.files:
        return False
    table = read_rows(night.files[TEMPLATES.name], TEMPLATES, ["is_previous", "is_chosen"])
    previous = table.filter(pc.field("is_previous"))["is_chosen"].to_pylist()
    return bool(previous) and not any(previous)


def null_shares(night: Night) -> Iterator[Finding]:
    """Columns whose share of nulls has risen by more than the rule."""
    for name, columns in WATCHED.items():
        before, now = (night.before or {}).get(name), night.made.tables.get(name)
        if before is None or now is None or min(before.rows, now.rows) < LEAST_ROWS_OF_NULLS:
            continue
        nulls_before, nulls = _nulls(before), _nulls(now)
        for column in [one for one in columns if one in nulls_before and one in nulls]:
            was, share = nulls_before[column] / before.rows, nulls[column] / now.rows
            if share > was + MORE_NULLS:
                expected = f"at most {was + MORE_NULLS:.1%}, as the version before has {was:.1%}"
                yield Finding(f"{name}.{column}", f"{share:.1%} nulls", expected)


def ranges(night: Night) -> Iterator[Finding]:
    """Rows whose values contradict what the columns of their table declare."""
    for name, path in night.files.items():
        rows = night.made.tables[name].rows
        for condition, n_bad in out_of_range(TABLES[name], path).items():
            if n_bad:
                yield Finding(name, f"{n_bad:,} of {rows:,} rows against {condition}", "none")


def out_of_range(kind: TableKind, path: Path) -> dict[str, int]:
    """Per condition of the table's columns the number of rows of the file that contradict it."""
    with opened_rows(path, kind) as rows:
        broken = broken_conditions(kind, rows.schema.names)
        # Arrow's scanner passes over row groups whose statistics decide.
        return {text: rows.count_rows(filter=one) for text, one in broken.items()}


def broken_conditions(kind: TableKind, names: Collection[str]) -> dict[str, pc.Expression]:
    """By condition on columns with these names, which rows contradict it: least values, and columns that ascend.

    A row with a null in one of the columns contradicts nothing.
    """
    if kind.name == JOBS.name:
        least = {name: value for name, value in LEAST_OF_KEPT_JOBS.items() if {name, "flag"} <= set(names)}
        is_kept = pc.field("flag").is_null()
        return {f"{one} >= {value} or a flag": (pc.field(one) < value) & is_kept for one, value in least.items()}
    found = {}
    for column in (one for one in kind.columns if one.name in names):
        if column.is_positive:
            found[f"{column.name} > 0"] = pc.field(column.name) <= 0
        elif column.minimum is not None:
            found[f"{column.name} >= {column.minimum:g}"] = pc.field(column.name) < column.minimum
    for low, high in (pair for chain in ASCENDING for pair in pairwise(one for one in chain if one in names)):
        found[f"{low} <= {high}"] = pc.field(low) > pc.field(high)
    return found


def coverage(night: Night) -> Iterator[Finding]:
    """Levels that fewer later jobs kept than they say, by the records of predictions and of the estimator."""
    for stage, levels in LEVELS.items():
        facts = (night.made.report(stage) or {}).get("facts", {})
        if (facts.get(SCORED[stage]) or 0) < LEAST_SCORED:
            continue
        for name, level in levels:
            share = facts.get(name)
            if share is not None and share < level - SHORTFALL:
                least = f"at least {level - SHORTFALL:.1%} of later jobs"
                yield Finding(f"{stage}.{name}", f"{share:.1%}", least)


def newest_job(night: Night) -> Iterator[Finding]:
    """A newest kept job that is too old, or that ended more than a day after now."""
    newest_s: float | None = None
    if JOBS.name in night.files:
        parts = parts_of(StoredTable(night.files[JOBS.name], JOBS), ["end_s", "flag"])
        newest_s = pc.max([pc.max(one.filter(pc.field("flag").is_null())["end_s"]).as_py() for one in parts]).as_py()
    most_days = night.settings.newest_job.threshold
    most = f"at most {most_days:g} days"
    if newest_s is None:
        yield Finding(JOBS.name, "no kept job with an end", most)
    elif (age_days := (night.now_s - newest_s) / DAY_S) > most_days:
        yield Finding(JOBS.name, f"a newest job that ended {age_days:,.1f} days ago", most)
    elif age_days < -1:
        yield Finding(JOBS.name, f"a newest job that ends {-age_days:,.1f} days after now", "an end in the past")


CHECKS: Mapping[str, Check] = {
    check.__name__: check for check in (fewer_rows, more_rows, null_shares, ranges, coverage, newest_job)
}
"""Every check by its name, which is that of its settings."""

COMPARING = ("fewer_rows", "more_rows", "null_shares")
"""Checks that need the version before."""


def blocking(results: Sequence[CheckResult]) -> list[CheckResult]:
    """The failed checks for which the tables must not be published."""
    return [result for result in results if result.state == "failed" and result.mode == "block"]


def report_of(results: Sequence[CheckResult]) -> Report:
    """The checks as a report: passed, failed and skipped ones; a note for each that failed."""
    counts = {state: sum(result.state == state for result in results) for state in ("passed", "failed", "skipped")}
    set_aside = {state: Tally(counts[state]) for state in ("failed", "skipped") if counts[state]}
    notes = tuple(str(result) for result in results if result.state == "failed")
    return Report(
        "checks", "check", Tally(len(results)), Tally(counts["passed"]), set_aside,
        {result.check: result.state for result in results}, notes,
    ).check()  # fmt: skip
