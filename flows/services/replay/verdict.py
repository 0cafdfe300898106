"""What a replay says in plain sentences: what would have been gained, who would have waited longer, and how sure it is."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from flows.services.replay.replaying import ReplayResult
from pipeline.evaluate.replay.cases import TODAY, Estimates, policy_name

Row = Mapping[str, Any]

SAME_S = 60.0
"""A user whose mean wait changes by less is not counted as a winner or a loser."""

NAMED = 5
"""Losers named in a sentence; the table has all."""


def sentences(result: ReplayResult) -> list[str]:
    """The answer for one log, a sentence each."""
    rows = result.table.to_pylist()
    said = [_scope(result)]
    if not result.has_waits:
        said.append("This log does not state waits, so that its submits are really starts: its figures count in no average.")
    case = best_case(rows)
    if case is None:
        return [*said, "No other case than EASY with requests was replayed."]
    return [*said, *_gain(rows, case), *_tails(rows, case), *_users(rows, case), *_sizes(rows, case), *_control(rows, case)]


def best_case(rows: Sequence[Row]) -> tuple[str, str] | None:
    """The policy and estimates that the sentences are about: those of `walltime` if replayed, else of the least slowdown.

    The control and perfect estimates are only compared with.
    """
    apart = {Estimates.CONTROL, Estimates.PERFECT}
    tried = [row for row in whole(rows) if _case(row) != base_case() and row["estimates"] not in apart]
    tried.sort(key=lambda row: (row["estimates"] != Estimates.WALLTIME, row["slowdown_mean"]))
    return _case(tried[0]) if tried else None


def base_case() -> tuple[str, str]:
    """EASY with requests, as the columns of the table have it."""
    return policy_name(TODAY.policy), str(TODAY.estimates)


def whole(rows: Sequence[Row]) -> list[Row]:
    """The medians of all scored jobs, a row a case."""
    return [row for row in rows if row["part"] == "all" and row["statistic"] in ("median", "single")]


def average_changes(found: Sequence[ReplayResult]) -> dict[tuple[str, str], dict[str, float]]:
    """By policy and estimates the mean of the logs' median changes in slowdown, without the logs that state no waits."""
    changes: dict[tuple[str, str], list[float]] = {}
    for result in found:
        for row in whole(result.table.to_pylist()) if result.has_waits else ():
            changes.setdefault(_case(row), []).append(row["slowdown_change"])
    return {case: {"n_logs": len(own), "slowdown_change": sum(own) / len(own)} for case, own in changes.items()}


def has_gained(low: float, high: float) -> bool | None:
    """Whether a change, from its lower to its upper quartile, is a gain; None: it is neither surely one nor a loss."""
    return True if high < 0 else False if low > 0 else None


def _case(row: Row) -> tuple[str, str]:
    return row["policy"], row["estimates"]


def _of(rows: Sequence[Row], case: tuple[str, str], part: str) -> dict[Any, dict[str, Row]]:
    """By value of the part the rows of a case by statistic; of one replay all statistics are the same."""
    found: dict[Any, dict[str, Row]] = {}
    for row in rows:
        if _case(row) == case and row["part"] == part:
            named = ("q25", "median", "q75") if row["statistic"] == "single" else (row["statistic"],)
            found.setdefault(row["part_value"], {}).update(dict.fromkeys(named, row))
    return found


def _scope(result: ReplayResult) -> str:
    until = _day(result.until_s)
    since = "" if result.since_s is None else f" submitted from {_day(result.since_s)} to {until}"
    n_jobs = whole(result.table.to_pylist())[0]["n_jobs"]
    n_shakes = whole(result.table.to_pylist())[0]["n_shakes"]
    how = f"the medians of {n_shakes} replays with shaken arrivals" if n_shakes else "of one replay, not shaken"
    return (f"{result.log}: {n_jobs:,} jobs{since} on {result.capacity:,} processors ({result.capacity_from}); "
            f"figures are {how}, beside EASY backfilling with requests.")  # fmt: skip


def _gain(rows: Sequence[Row], case: tuple[str, str]) -> Iterator[str]:
    own, base = _of(rows, case, "all")[None], _of(rows, base_case(), "all")[None]["median"]
    middle = own["median"]
    low, high = own["q25"]["slowdown_change"], own["q75"]["slowdown_change"]
    gained = has_gained(low, high)
    name = f"{case[0]} with {case[1]}"
    waits = f"jobs would have waited {_h(middle['wait_mean_s'])} on average instead of {_h(base['wait_mean_s'])}"
    slowdown = f"the mean bounded slowdown would have been {middle['slowdown_mean']:.1f} instead of {base['slowdown_mean']:.1f}"
    sure = f"{middle['slowdown_change']:+.0%}, in half of the replays between {low:+.0%} and {high:+.0%}"
    if gained:
        yield f"Gain: with {name} {waits}, and {slowdown} ({sure})."
    elif gained is None:
        yield f"Nothing is surely gained: with {name} {slowdown} ({sure}), and {waits}."
    else:
        yield f"Nothing is gained: with {name} {slowdown} ({sure}), and {waits}. Keep what you have."


def _tails(rows: Sequence[Row], case: tuple[str, str]) -> Iterator[str]:
    own, base = _of(rows, case, "all")[None]["median"], _of(rows, base_case(), "all")[None]["median"]
    yield (f"Waits at the end of the scale: 1 job in 100 would have waited more than {_h(own['wait_p99_s'])} instead of "
           f"{_h(base['wait_p99_s'])}, the longest wait would have been {_h(own['wait_longest_s'])} instead of "
           f"{_h(base['wait_longest_s'])}, and the widest tenth of the jobs would have waited "
           f"{_h(own['wait_wide_mean_s'])} on average instead of {_h(base['wait_wide_mean_s'])}.")  # fmt: skip


def _users(rows: Sequence[Row], case: tuple[str, str]) -> Iterator[str]:
    users = _of(rows, case, "user")
    base = _of(rows, base_case(), "user")
    shorter = [name for name, own in users.items() if own["q75"]["wait_change_s"] < -SAME_S]
    longer = [name for name, own in users.items() if own["q25"]["wait_change_s"] > SAME_S]
    longer.sort(key=lambda name: -users[name]["median"]["wait_change_s"] * users[name]["median"]["n_jobs"])
    certain = "" if users[next(iter(users))]["median"]["statistic"] == "single" else " in at least three quarters of the replays"
    yield (f"Of {len(users):,} users {len(shorter):,} would have waited less and {len(longer):,} longer{certain}; "
           f"for the others the difference is small or uncertain.")  # fmt: skip
    if longer:
        named = [
            f"{'unknown users' if name is None else name} ({users[name]['median']['n_jobs']:,} jobs, "
            f"{_h(users[name]['median']['wait_mean_s'])} instead of {_h(base[name]['median']['wait_mean_s'])})"
            for name in longer[:NAMED]
        ]
        yield f"Those who would have lost most, with their mean waits: {', '.join(named)}."


def _sizes(rows: Sequence[Row], case: tuple[str, str]) -> Iterator[str]:
    sizes, base = _of(rows, case, "size"), _of(rows, base_case(), "size")
    lost = [name for name, own in sizes.items() if own["q25"]["wait_change_s"] > SAME_S]
    if not lost:
        yield "No size class would have waited longer."
        return
    named = [
        f"{name} ({sizes[name]['median']['n_jobs']:,} jobs, {_h(sizes[name]['median']['wait_mean_s'])} instead of "
        f"{_h(base[name]['median']['wait_mean_s'])})"
        for name in lost
    ]
    yield f"Jobs of these numbers of processors would have waited longer: {', '.join(named)}."


def _control(rows: Sequence[Row], case: tuple[str, str]) -> Iterator[str]:
    """Where the control was replayed under the same policy: whether knowledge of runtimes brings anything."""
    control = (case[0], str(Estimates.CONTROL))
    found, own = _of(rows, control, "all"), _of(rows, case, "all")[None]["median"]
    if not found or case == control:
        return
    beside = found[None]["median"]
    change, other = own["slowdown_change"], beside["slowdown_change"]
    if change < other:
        yield f"The control, which plans with a tenth of the request, changes the slowdown by {other:+.0%}: less than the estimates."
    else:
        yield f"The control, which plans with a tenth of the request, changes the slowdown by {other:+.0%}: the estimates bring no more."


def _h(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _day(epoch_s: float) -> str:
    return datetime.fromtimestamp(epoch_s, UTC).date().isoformat()
