"""What a replay says in plain sentences: what would have been gained, who would have lost, and how sure that is."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from pipeline.schedule.what_if import SOFT, TODAY, WITH_METHOD, Estimates, policy_name

Row = Mapping[str, Any]

SAME_S = 60.0
"""A user or a size whose mean wait changes by less counts neither as a winner nor as a loser."""

LONGEST_TIMES = 1.5
"""A case whose longest wait is more than so many times that of EASY with requests is not recommended."""

NAMED = 5
"""Losers named in a sentence; the table has all."""


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """What the replays of one log found."""

    log: str
    table: pa.Table
    capacity: int
    unit: str
    """What the capacity counts: processors or nodes."""
    capacity_from: str
    n_jobs: int
    counts: dict[str, int]
    """Jobs left out or changed, by reason."""
    has_waits: bool
    since_s: float | None
    until_s: float
    log_utilisation: float
    """Of the machine in the log itself; NaN: no start is known."""


def sentences(result: ReplayResult) -> list[str]:
    """The answer for one log, a sentence each."""
    rows = result.table.to_pylist()
    said = [_scope(result, whole(rows)[0]), *_not_counted(result, whole(rows)[0]), *_changed(result)]
    if not result.has_waits:
        said.append("This log states no waits, so that its submits are really starts: its figures count in no average.")
    case = best_case(rows)
    if case is None:
        return [*said, "No other case than EASY with requests was replayed."]
    parts = (_gain, _quantiles, _long_waits, _users, _sizes, _control)
    return said + [one for part in parts for one in part(rows, case)]


def best_case(rows: Sequence[Row]) -> tuple[str, str] | None:
    """The policy and estimates that the sentences are about: of what a site can do the least slowdown.

    A case with our estimates comes first, and one without long waits (LONGEST_TIMES). The control and perfect estimates
    are only compared with.
    """
    apart = {Estimates.CONTROL, Estimates.PERFECT}
    tried = [row for row in whole(rows) if case_of(row) != base_case() and row["estimates"] not in apart]
    tried.sort(key=lambda row: (row["estimates"] not in WITH_METHOD, _waits_long(rows, row), row["slowdown_mean"]))
    return case_of(tried[0]) if tried else None


def _waits_long(rows: Sequence[Row], row: Row) -> bool:
    base = _of(rows, base_case(), "all")[None]["median"]
    return bool(row["wait_longest_s"] > LONGEST_TIMES * base["wait_longest_s"])


def base_case() -> tuple[str, str]:
    """EASY with requests, as the columns of the table have it."""
    return policy_name(TODAY.policy), str(TODAY.estimates)


def case_of(row: Row) -> tuple[str, str]:
    """The policy and the estimates of a row."""
    return row["policy"], row["estimates"]


def medians(rows: Sequence[Row]) -> list[Row]:
    """The medians over the shakes, or the figures of the one replay."""
    return [row for row in rows if row["statistic"] in ("median", "single")]


def whole(rows: Sequence[Row]) -> list[Row]:
    """The medians of all scored jobs, a row a case."""
    return [row for row in medians(rows) if row["part"] == "all"]


def average_changes(found: Sequence[ReplayResult]) -> dict[tuple[str, str], dict[str, float]]:
    """By policy and estimates the mean of the logs' median changes in slowdown; logs without waits are left out."""
    changes: dict[tuple[str, str], list[float]] = {}
    for result in found:
        for row in whole(result.table.to_pylist()) if result.has_waits else ():
            changes.setdefault(case_of(row), []).append(row["slowdown_change"])
    return {case: {"n_logs": len(own), "slowdown_change": sum(own) / len(own)} for case, own in changes.items()}


def has_gained(low: float, high: float) -> bool | None:
    """Whether a change, from its lower to its upper quartile, is a gain; None: neither surely a gain nor a loss."""
    return True if high < 0 else False if low > 0 else None


def _of(rows: Sequence[Row], case: tuple[str, str], part: str) -> dict[Any, dict[str, Row]]:
    """By value of the part the rows of a case by statistic; of one replay all statistics are the same."""
    found: dict[Any, dict[str, Row]] = {}
    for row in rows:
        if case_of(row) == case and row["part"] == part:
            named = ("q25", "median", "q75") if row["statistic"] == "single" else (row["statistic"],)
            found.setdefault(row["part_value"], {}).update(dict.fromkeys(named, row))
    return found


def _scope(result: ReplayResult, row: Row) -> str:
    since = "" if result.since_s is None else f" submitted from {_day(result.since_s)} to {_day(result.until_s)}"
    how = f"medians of {row['n_shakes']} replays with shaken arrivals" if row["n_shakes"] else "of one replay"
    in_log = "an unknown share" if math.isnan(result.log_utilisation) else f"{result.log_utilisation:.0%}"
    used = "an unknown share" if row["utilisation"] is None else f"{row['utilisation']:.0%}"
    return (f"{result.log}: {row['n_jobs']:,} jobs{since} on {result.capacity:,} {result.unit} "
            f"({result.capacity_from}), of which the log used {in_log} and its replay with EASY and requests {used}; "
            f"figures are {how}, compared with EASY backfilling with requests.")  # fmt: skip


def _not_counted(result: ReplayResult, row: Row) -> Iterator[str]:
    """How many jobs were replayed beside those that figures are of, and why."""
    if n := result.n_jobs - row["n_jobs"]:
        warm_up = "the first 1%, which meet an empty machine"
        why = "those that the simulator pyss leaves out" if row["convention"] == "pyss" else warm_up
        before = "" if result.since_s is None else "those submitted before, and "
        yield f"Figures leave out {n:,} of the {result.n_jobs:,} replayed jobs: {before}{why}."


CHANGED = {
    "no_runtime": "without a runtime left out",
    "no_procs": "without processors left out",
    "no_submit": "without a submit left out",
    "no_job_of_its_own": "that are no jobs of their own left out",
    "no_request": "without a request planned with the largest request of the log, or with their own longer runtime",
    "silent_request": "with a request over four times the longest run planned as if they had none",
    "cut_at_request": "cut at their requests",
    "larger_than_machine": "cut to the machine's size",
    "made_1_s": "without a runtime or processors counted as 1 s",
    "run_and_request_swapped": "with a runtime beyond the request planned with the runtime",
}
"""What a replay does to jobs, by the reasons of workload.py."""


def _changed(result: ReplayResult) -> Iterator[str]:
    """How many jobs were left out or changed, because a replay of other jobs is another log."""
    said = [f"{n:,} {CHANGED[reason]}" for reason, n in result.counts.items()]
    if said:
        yield f"Jobs of the whole log that are not replayed as they ran: {'; '.join(said)}."


def _gain(rows: Sequence[Row], case: tuple[str, str]) -> Iterator[str]:
    own, base = _of(rows, case, "all")[None], _of(rows, base_case(), "all")[None]["median"]
    middle = own["median"]
    low, high = own["q25"]["slowdown_change"], own["q75"]["slowdown_change"]
    gained = has_gained(low, high)
    begins = "Gain" if gained else "Nothing is surely gained" if gained is None else "Nothing is gained"
    yield (
        f"{begins}: with {case[0]} and estimates of {case[1]} jobs would have waited {_h(middle['wait_mean_s'])} on "
        f"average instead of {_h(base['wait_mean_s'])}, and the mean bounded slowdown would have been "
        f"{middle['slowdown_mean']:.1f} instead of {base['slowdown_mean']:.1f} ({middle['slowdown_change']:+.0%}, "
        f"in half of the replays between {low:+.0%} and {high:+.0%})."
    )


def _quantiles(rows: Sequence[Row], case: tuple[str, str]) -> Iterator[str]:
    """Under the case's policy what each quantile would have changed, and which one is best."""
    soft = [row for row in whole(rows) if row["policy"] == case[0] and row["estimates"] in SOFT]
    if len(soft) > 1:
        soft.sort(key=lambda row: (_waits_long(rows, row), row["slowdown_mean"]))
        told = ", ".join(
            f"{SOFT[Estimates(row['estimates'])]:g} ({row['slowdown_change']:+.0%}, longest wait "
            f"{_h(row['wait_longest_s'])})" for row in soft
        )  # fmt: skip
        yield f"With soft limits the best export.quantile here is the first of {told}."


def _long_waits(rows: Sequence[Row], case: tuple[str, str]) -> Iterator[str]:
    own, base = _of(rows, case, "all")[None]["median"], _of(rows, base_case(), "all")[None]["median"]
    p99, longest, widest = (
        f"{_h(own[name])} instead of {_h(base[name])}" for name in ("wait_p99_s", "wait_longest_s", "wait_wide_mean_s")
    )
    yield (f"Long waits: 1 job in 100 would have waited more than {p99}, the longest wait would have been {longest}, "
           f"and the tenth of the jobs with the most processors would have waited {widest} on average.")  # fmt: skip


def _users(rows: Sequence[Row], case: tuple[str, str]) -> Iterator[str]:
    users, base = _of(rows, case, "user"), _of(rows, base_case(), "user")
    shorter = [name for name, own in users.items() if own["q75"]["wait_change_s"] < -SAME_S]
    longer = [name for name, own in users.items() if own["q25"]["wait_change_s"] > SAME_S]
    longer.sort(key=lambda name: -users[name]["median"]["wait_change_s"] * users[name]["median"]["n_jobs"])
    is_single = next(iter(users.values()))["median"]["statistic"] == "single"
    certain = "" if is_single else " in at least three quarters of the replays"
    yield (f"Of {len(users):,} users {len(shorter):,} would have waited less and {len(longer):,} longer{certain}; for "
           f"the others the difference is small or uncertain.")  # fmt: skip
    if longer:
        named = _waits(
            {f"user {name}" if name else "unknown users": (users[name], base[name]) for name in longer[:NAMED]}
        )
        yield f"Those who would have lost most, with their mean waits: {named}."


def _sizes(rows: Sequence[Row], case: tuple[str, str]) -> Iterator[str]:
    sizes, base = _of(rows, case, "size"), _of(rows, base_case(), "size")
    lost = {name: (own, base[name]) for name, own in sizes.items() if own["q25"]["wait_change_s"] > SAME_S}
    if lost:
        yield f"Jobs of these numbers of processors would have waited longer on average: {_waits(lost)}."
    else:
        yield "Jobs of no size would have waited longer on average."


def _waits(lost: Mapping[str, tuple[Mapping[str, Row], Mapping[str, Row]]]) -> str:
    """Each name with its jobs and its mean waits."""
    return ", ".join(
        f"{name} ({own['median']['n_jobs']:,} jobs, {_h(own['median']['wait_mean_s'])} instead of "
        f"{_h(base['median']['wait_mean_s'])})"
        for name, (own, base) in lost.items()
    )


def _control(rows: Sequence[Row], case: tuple[str, str]) -> Iterator[str]:
    """Where the control was replayed under the same policy: whether knowledge of runtimes brings anything."""
    found, own = _of(rows, (case[0], str(Estimates.CONTROL)), "all"), _of(rows, case, "all")[None]["median"]
    if found:
        other = found[None]["median"]["slowdown_change"]
        more = "the estimates bring more" if own["slowdown_change"] < other else "the estimates bring no more"
        yield f"The control, which plans with a tenth of the request, changes the slowdown by {other:+.0%}: {more}."


def _h(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _day(epoch_s: float) -> str:
    return datetime.fromtimestamp(epoch_s, UTC).date().isoformat()
