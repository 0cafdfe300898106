"""Checks of a night's tables: one function each, in a registry. A check yields a finding for everything it rejects.

Checks that compare need a version that was published before; on the first night they are skipped.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pipeline.core.check_settings import (
    CheckSettings,
    ContractCheck,
    CoverageCheck,
    FewerRows,
    Mode,
    MoreRows,
    NewestJob,
    NullShares,
)
from pipeline.core.check_settings import Ranges as RangesCheck
from pipeline.core.contract import breaches, contract_of
from pipeline.core.tables import ESTIMATES, JOBS, PREDICTIONS, SET_LATER, TABLES, TEMPLATES
from pipeline.core.text import printable
from pipeline.core.version import code_version
from pipeline.publish.night import Night
from pipeline.publish.table_facts import TableFacts
from pipeline.publish.value_ranges import has_other_template, newest_kept_end_s, out_of_range

DAY_S = 86_400.0
FOLLOWED = ("jobs", "groups", "observations", "fits", "predictions", "scalability", "estimates")
"""Tables whose rows are compared from night to night; bursts and unreadable lines come and go."""

FEW_ROWS = 20
"""Tables that were smaller than this, other than JOBS, are not compared: one group more or less is a large share."""

OF_TEMPLATE = ("groups", "observations", "fits", "predictions", "scalability")
"""Tables whose size depends on the template: a night that changes it is not compared in them."""

MANY_ROWS = 100
"""Least rows of both tables whose shares of nulls are compared."""

WATCHED = {
    JOBS.name: tuple(c.name for c in JOBS.columns if not c.is_required and c.name not in SET_LATER),
    PREDICTIONS.name: ("runtime_s", "runtime_s_lo95", "runtime_s_hi95"),
    ESTIMATES.name: tuple(f"runtime_s_q{q}" for q in (10, 50, 80, 90, 95, 99)),
}
"""Columns whose shares of nulls are compared. Those of JOBS come from the log, so that a lost field shows."""

LEVELS: dict[str, tuple[tuple[str, float], ...]] = {
    "later": (("in_80_later", 0.80), ("in_95_later", 0.95)),
    "learn": (("coverage_80", 0.80), ("coverage_q80", 0.80), ("coverage_q90", 0.90), ("coverage_q95", 0.95)),
}
"""Per stage the facts that are shares of later jobs, with their nominal levels."""

SCORED = {"later": "past_jobs", "learn": "n_scored"}


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check rejects: where, what was found, what was expected."""

    where: str
    found: str
    expected: str

    def __str__(self) -> str:
        return f"{self.where}: found {self.found}, expected {self.expected}"


@dataclass(frozen=True, slots=True)
class Check:
    """One check: its name, which is that of its settings; whether it compares with the version before; its function."""

    name: str
    compares: bool
    find: Callable[[Night, Any], Iterator[Finding]]


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The outcome of one check: passed, failed with findings, or skipped with a reason."""

    name: str
    mode: Mode
    state: Literal["passed", "failed", "skipped"]
    findings: tuple[Finding, ...] = ()
    reason: str = ""

    @property
    def blocks(self) -> bool:
        """Whether the tables must not be published."""
        return self.state == "failed" and self.mode == "block"


def check_night(night: Night, settings: CheckSettings) -> tuple[CheckResult, ...]:
    """The results of all checks, in the order of the registry."""
    return tuple(_result(check, night, getattr(settings, check.name)) for check in CHECKS.values())


def _result(check: Check, night: Night, rule: Any) -> CheckResult:
    if rule.mode == "off":
        return CheckResult(check.name, rule.mode, "skipped", reason="off")
    if check.compares and night.before is None:
        return CheckResult(check.name, rule.mode, "skipped", reason=night.nothing_before)
    findings = tuple(check.find(night, rule))
    return CheckResult(check.name, rule.mode, "failed" if findings else "passed", findings)


def contract(night: Night, _rule: ContractCheck) -> Iterator[Finding]:
    """Each file has the declared columns and no null where none may be; since the version before nothing broke."""
    declared = contract_of(TABLES[name] for name in night.tables if name in TABLES)
    held = plain_contract(night.tables)
    # Tables of an earlier release may lack what has been added since.
    pair = (declared, held) if night.code == code_version() else (held, declared)
    for sentence in breaches(*pair):
        yield Finding("tables", sentence, "the declared columns")
    for name, table in night.tables.items():
        for column, facts in table.columns.items():
            if facts.nulls and not facts.nullable:
                yield Finding(f"{name}.{printable(column)}", f"{facts.nulls:,} nulls", "a value in every row")
    if night.before is not None:
        for sentence in breaches(plain_contract(night.before.tables), held):
            yield Finding("tables", sentence, "only added tables and nullable columns since the version before")


def plain_contract(tables: Mapping[str, TableFacts]) -> dict[str, Any]:
    """The contract that some files keep, in the form of `contract_of`."""
    return {
        name: {
            "key": list(table.key),
            "columns": {
                column: {"type": facts.type, "unit": facts.unit, "nullable": facts.nullable}
                for column, facts in table.columns.items()
            },
        }
        for name, table in tables.items()
    }


def fewer_rows(night: Night, rule: FewerRows) -> Iterator[Finding]:
    """Tables that have lost more than a share of their rows, and the jobs that cleaning kept likewise."""
    for name, before, now in _row_counts(night):
        least = (1 - rule.threshold) * before
        if now < least:
            yield Finding(name, f"{now:,} rows", f"at least {least:,.0f}, as the version before has {before:,}")


def more_rows(night: Night, rule: MoreRows) -> Iterator[Finding]:
    """Tables that have grown by more than a factor."""
    for name, before, now in _row_counts(night):
        most = rule.threshold * before
        if before >= FEW_ROWS and now > most:
            yield Finding(name, f"{now:,} rows", f"at most {most:,.0f}, as the version before has {before:,}")


def _row_counts(night: Night) -> Iterator[tuple[str, int, int]]:
    """Per followed table its name and its rows before and now; also the jobs without a flag, which cleaning kept."""
    assert night.before is not None  # nosec B101 # for the type checker
    for name in [one for one in FOLLOWED if one not in OF_TEMPLATE or not _has_other_template(night)]:
        before, now = night.before.tables.get(name), night.tables.get(name)
        if before is None or (before.rows < FEW_ROWS and name != JOBS.name):
            continue
        yield name, before.rows, now.rows if now else 0
        if name == JOBS.name and now and "flag" in before.columns and "flag" in now.columns:
            yield "jobs that cleaning kept", before.columns["flag"].nulls, now.columns["flag"].nulls


def _has_other_template(night: Night) -> bool:
    """Whether the night's jobs are grouped by another template than those of the version before."""
    path = night.files.get(TEMPLATES.name)
    return path is not None and has_other_template(path)


def null_shares(night: Night, rule: NullShares) -> Iterator[Finding]:
    """Columns whose share of nulls has risen by more than the threshold."""
    assert night.before is not None  # nosec B101 # for the type checker
    for name, columns in WATCHED.items():
        before, now = night.before.tables.get(name), night.tables.get(name)
        if before is None or now is None or min(before.rows, now.rows) < MANY_ROWS:
            continue
        for column in columns:
            if column in before.columns and column in now.columns:
                was, share = before.columns[column].nulls / before.rows, now.columns[column].nulls / now.rows
                if share > was + rule.threshold:
                    most = f"at most {was + rule.threshold:.1%}, as the version before has {was:.1%}"
                    yield Finding(f"{name}.{column}", f"{share:.1%} nulls", most)


def ranges(night: Night, rule: RangesCheck) -> Iterator[Finding]:
    """Rows whose values contradict a condition of `value_ranges.RANGES`."""
    for name, path in night.files.items():
        for condition, n_bad in out_of_range(name, path).items():
            rows = night.tables[name].rows
            if n_bad > rule.threshold * rows:
                yield Finding(name, f"{n_bad:,} of {rows:,} rows against {condition}", f"at most {rule.threshold:.1%}")


def coverage(night: Night, rule: CoverageCheck) -> Iterator[Finding]:
    """Levels that fewer later jobs kept than they say, by the records of predictions and of the estimator."""
    for stage, levels in LEVELS.items():
        facts = night.reports.get(stage, {})
        if (facts.get(SCORED[stage]) or 0) < rule.min_jobs:
            continue
        for name, level in levels:
            share = facts.get(name)
            if share is not None and share < level - rule.threshold:
                least = f"at least {level - rule.threshold:.1%} of later jobs"
                yield Finding(f"{stage}.{name}", f"{share:.1%}", least)


def newest_job(night: Night, rule: NewestJob) -> Iterator[Finding]:
    """A newest kept job that is too old, or that ended more than a day after now."""
    newest_s = newest_kept_end_s(night.files[JOBS.name]) if JOBS.name in night.files else None
    most = f"at most {rule.threshold:g} days"
    if newest_s is None:
        yield Finding(JOBS.name, "no kept job with an end", most)
        return
    age_days = (night.now_s - newest_s) / DAY_S
    if age_days > rule.threshold:
        yield Finding(JOBS.name, f"a newest job that ended {age_days:,.1f} days ago", most)
    elif age_days < -1:
        yield Finding(JOBS.name, f"a newest job that ends {-age_days:,.1f} days after now", "an end in the past")


CHECKS = {
    check.name: check
    for check in (
        Check("contract", False, contract),
        Check("fewer_rows", True, fewer_rows),
        Check("more_rows", True, more_rows),
        Check("null_shares", True, null_shares),
        Check("ranges", False, ranges),
        Check("coverage", False, coverage),
        Check("newest_job", False, newest_job),
    )
}


def failed(results: Sequence[CheckResult], *, blocking: bool) -> list[CheckResult]:
    """The failed checks that block, or those that only warn."""
    return [result for result in results if result.state == "failed" and result.blocks == blocking]
