"""What a replay says in plain sentences: what would have been gained, who would have lost, and how sure that is."""

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pyarrow as pa

from pipeline.schedule.what_if import SOFT, TODAY, WITH_METHOD, Estimates, Subject
from pipeline.schema import plural

Row = Mapping[str, Any]

SAME_S = 60.0
"""A user or a size whose mean wait changes by less counts neither as a winner nor as a loser."""

LONGEST_TIMES = 1.5
"""A case whose longest wait is more than so many times that of EASY with requests is not recommended."""

NAMED = 5
"""Losers named in a sentence; the table has all."""


class ReplayResult(NamedTuple):
    """What the replays of one log found."""

    subject: Subject
    table: pa.Table
    capacity_from: str
    """Where the capacity of the machine is known from,"""
    unit: str
    """and what it counts: processors or nodes."""


Replayed = Mapping[str, Mapping[str, Mapping[str | None, Mapping[str, Row]]]]
"""By case, part of the jobs and value of the part the rows of REPLAY by statistic."""


def case_of(row: Row) -> str:
    """The policy and the estimates of a row, as Case.name."""
    return f"{row['policy']}, {row['estimates']}"


def by_case(table: pa.Table) -> Replayed:
    """The rows of REPLAY; of one replay all statistics are the same."""
    found: dict[str, dict[str, dict[str | None, dict[str, Row]]]] = {}
    for row in table.to_pylist():
        named = ("q25", "median", "q75") if row["statistic"] == "single" else (row["statistic"],)
        values = found.setdefault(case_of(row), {}).setdefault(row["part"], {})
        values.setdefault(row["part_value"], {}).update(dict.fromkeys(named, row))
    return found


def whole(found: Replayed) -> dict[str, Row]:
    """By case the medians of all scored jobs."""
    return {case: parts["all"][None]["median"] for case, parts in found.items()}


def by_merit(found: Replayed) -> list[Row]:
    """The medians of what a site can do, the best first: without long waits (LONGEST_TIMES), then the least slowdown.

    Cases with our estimates come before others; the control and perfect estimates are only compared with.
    """
    tried = whole(found)
    longest_s = LONGEST_TIMES * tried.pop(TODAY.name)["wait_longest_s"]
    can_do = [row for row in tried.values() if row["estimates"] not in (Estimates.CONTROL, Estimates.PERFECT)]
    return sorted(can_do, key=lambda row: (
        row["estimates"] not in WITH_METHOD, row["wait_longest_s"] > longest_s, row["slowdown_mean"],
    ))  # fmt: skip


def average_changes(found: Sequence[ReplayResult]) -> list[dict[str, Any]]:
    """By policy and estimates the mean of the logs' median changes in slowdown; logs without waits are left out."""
    changes: dict[tuple[str, str], list[float]] = {}
    for result in found:
        for row in whole(by_case(result.table)).values() if result.subject.has_waits else ():
            changes.setdefault((row["policy"], row["estimates"]), []).append(row["slowdown_change"])
    return [
        {"policy": policy, "estimates": estimates, "n_logs": len(own), "slowdown_change": sum(own) / len(own)}
        for (policy, estimates), own in changes.items()
    ]


def sentences(result: ReplayResult) -> list[str]:
    """The answer for one log, a sentence each."""
    found = by_case(result.table)
    said = list(_scope(result, whole(found)[TODAY.name]))
    if not result.subject.has_waits:
        said.append("This log states no waits, so that its submits are really starts: its figures count in no average.")
    if not by_merit(found):
        return [*said, "No other case than EASY with requests was replayed."]
    return [*said, *_answer(found)]


def _scope(result: ReplayResult, row: Row) -> Iterator[str]:
    """Which jobs were replayed on which machine, and how many were left out or changed: others would be another log."""
    subject, work = result.subject, result.subject.work
    is_whole, in_log_share = math.isinf(subject.since_s), subject.log_utilisation
    since = "" if is_whole else f" submitted from {_day(subject.since_s)} to {_day(float(work.submit_s[-1]))}"
    how = f"medians of {row['n_shakes']} replays with shaken arrivals" if row["n_shakes"] else "of one replay"
    in_log = "an unknown share" if math.isnan(in_log_share) else f"{in_log_share:.0%}"
    used = "an unknown share" if row["utilisation"] is None else f"{row['utilisation']:.0%}"
    yield (
        f"{subject.log}: {row['n_jobs']:,} jobs{since} on {work.capacity:,} {result.unit} ({result.capacity_from}), "
        f"of which the log used {in_log} and its replay with EASY and requests {used}; figures are {how}, compared "
        "with EASY backfilling with requests."
    )
    if n := len(work) - row["n_jobs"]:
        warm_up = "the first 1%, which meet an empty machine"
        why = "those that the simulator pyss leaves out" if row["convention"] == "pyss" else warm_up
        before = "" if is_whole else "those submitted before, and "
        yield f"Figures leave out {n:,} of the {len(work):,} replayed jobs: {before}{why}."
    if changed := [f"{n:,} {CHANGED[reason]}" for reason, n in work.counts.items()]:
        yield f"Jobs of the whole log that are not replayed as they ran: {'; '.join(changed)}."


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


def _answer(replayed: Replayed) -> Iterator[str]:
    """What the best case gains and who loses by it, beside the others."""
    ranked, medians = by_merit(replayed), whole(replayed)
    middle, base = ranked[0], medians[TODAY.name]
    own, today = replayed[case_of(middle)], replayed[TODAY.name]
    low, high = (own["all"][None][one]["slowdown_change"] for one in ("q25", "q75"))
    begins = "Gain" if high < 0 else "Nothing is gained" if low > 0 else "Nothing is surely gained"
    yield (
        f"{begins}: with {middle['policy']} and estimates of {middle['estimates']} jobs would have waited "
        f"{_h(middle['wait_mean_s'])} on average instead of {_h(base['wait_mean_s'])}, and the mean bounded slowdown "
        f"would have been {middle['slowdown_mean']:.1f} instead of {base['slowdown_mean']:.1f} "
        f"({middle['slowdown_change']:+.0%}, in half of the replays between {low:+.0%} and {high:+.0%})."
    )
    # What a site can choose between, each at its best; and the settings of the best of all.
    soft = [row for row in ranked if row["estimates"] in SOFT]
    choices = {
        "soft limits": [row for row in soft if row["policy"] == "easy"],
        "order": [row for row in ranked if row["estimates"] == Estimates.ORDER],
        "both": [row for row in soft if row["policy"] == "easy-sjbf"],
    }
    if told := [f"{choice} {_told(found[0], base)}" for choice, found in choices.items() if found]:
        settings = [f"export.quantile = {SOFT[Estimates(middle['estimates'])]:g}"] if middle in soft else []
        settings += ["export.order = true"] if middle["policy"] == "easy-sjbf" else []
        best = f"Best here: {' and '.join(settings)}" if high < 0 else "None is surely better"
        yield f"Slowdown compared with neither: {', '.join(told)}. {best}."
    own_soft = [row for row in soft if row["policy"] == middle["policy"]]
    if len(own_soft) > 1:
        yield f"Values of export.quantile, the best first: {', '.join(_told(row, base) for row in own_soft)}."
    p99, longest, widest = (
        f"{_h(middle[one])} instead of {_h(base[one])}" for one in ("wait_p99_s", "wait_longest_s", "wait_wide_mean_s")
    )
    yield (
        f"Long waits: 1 job in 100 would have waited more than {p99}, the longest wait would have been {longest}, and "
        f"the tenth of the jobs with the most processors would have waited {widest} on average."
    )
    users, before = own["user"], today["user"]
    n_shorter = sum(found["q75"]["wait_change_s"] < -SAME_S for found in users.values())
    longer = [found["median"] for found in users.values() if found["q25"]["wait_change_s"] > SAME_S]
    certain = "" if middle["statistic"] == "single" else " in at least three quarters of the replays"
    yield (
        f"Of {len(users):,} {plural('user', len(users))} {n_shorter:,} would have waited less and {len(longer):,} "
        f"longer{certain}; for the others the difference is small or uncertain."
    )
    losers = [
        f"{'unknown users' if row['part_value'] is None else 'user ' + row['part_value']} ({row['n_jobs']:,} jobs, "
        f"{_h(row['wait_mean_s'])} instead of {_h(before[row['part_value']]['median']['wait_mean_s'])})"
        for row in sorted(longer, key=lambda row: -row["wait_change_s"] * row["n_jobs"])[:NAMED]
    ]
    if losers:
        yield f"Those who would have lost most, with their mean waits: {', '.join(losers)}."
    # Where the control was replayed under the same policy: whether knowledge of runtimes brings anything.
    if control := medians.get(f"{middle['policy']}, {Estimates.CONTROL}"):
        change = control["slowdown_change"]
        more = "the estimates bring more" if middle["slowdown_change"] < change else "the estimates bring no more"
        yield f"The control, which plans with a tenth of the request, changes the slowdown by {change:+.0%}: {more}."


def _told(row: Row, base: Row) -> str:
    """The change of the slowdown, with the quantile of soft limits, and with a long wait where there is one."""
    times = row["wait_longest_s"] / base["wait_longest_s"] if base["wait_longest_s"] else 1.0
    notes = [f"quantile {SOFT[Estimates(row['estimates'])]:g}"] if row["estimates"] in SOFT else []
    notes += [f"longest wait {times:.1f} times as long"] if times > LONGEST_TIMES else []
    return f"{row['slowdown_change']:+.0%}" + f" ({', '.join(notes)})" * bool(notes)


def _h(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _day(epoch_s: float) -> str:
    return datetime.fromtimestamp(epoch_s, UTC).date().isoformat()
