"""What-if: every case over the same shaken logs, as the table REPLAY, and who would have waited less or longer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pyarrow as pa

from pipeline.arrays import Bools, Floats, Ints
from pipeline.evaluate.backtest import size_classes, size_name
from pipeline.schedule.engine import Schedule, replay
from pipeline.schedule.figures import ReplayMetrics, Score, bounded_slowdown, metrics, scored
from pipeline.schedule.replay_cases import TODAY, Case, plan, policy_name
from pipeline.schedule.workload import Shakes, Workload, shaken
from pipeline.tables import REPLAY

WHOLE = tuple(field.name for field in fields(ReplayMetrics) if field.name != "n_jobs")
"""The figures of all scored jobs, columns of REPLAY."""

OF_GROUP = ("slowdown_mean", "wait_mean_s", "wait_longest_s")
"""The figures of a size class or of a user."""

STATISTICS = {"q25": 0.25, "median": 0.5, "q75": 0.75}


@dataclass(frozen=True, slots=True)
class Subject:
    """A log as it is replayed."""

    log: str
    work: Workload
    quantiles_s: Mapping[str, Floats]
    """By method of the registry, as `cases.plan` takes them; one as-of pass serves all shakes."""
    user_names: Sequence[str]
    """The text of each user code."""
    convention: str
    score: Score = Score.NATURAL
    since_s: float = -np.inf
    """Jobs submitted before are replayed, and not scored."""
    has_waits: bool = True
    """Whether the log states waits. Without them its submits are starts, and no gain can be told."""


@dataclass(frozen=True, slots=True)
class Group:
    """A split of the jobs: a code from 0 per row of the workload as it is, and the texts of the codes."""

    part: str
    code: Ints
    names: Sequence[str | None]


def what_if(subject: Subject, chosen: Sequence[Case], shakes: Shakes) -> pa.Table:
    """REPLAY: the figures of each case, medians and quartiles over the shakes, whole and by size class and user.

    Parameters
    ----------
    subject
        The log, with its estimates.
    chosen
        The cases; TODAY is added where it is missing. All are replayed on the same shaken arrivals, and changes are
        differences from TODAY within one shake.
    shakes
        With n = 0 the log is replayed once, as it is.

    Returns
    -------
    pa.Table
        REPLAY; parts without a scored job are left out.
    """
    listed = list(dict.fromkeys((TODAY, *chosen)))
    groups = groups_of(subject)
    found: dict[Case, list[list[Floats]]] = {case: [] for case in listed}
    for nth in range(max(1, shakes.n)):
        work, places = shaken(subject.work, shakes, nth) if shakes.n else (subject.work, np.arange(len(subject.work)))
        for case in listed:
            own = plan(case.estimates, work, subject.quantiles_s)
            schedule = replay(work, case.options, own.reservation_s, own.order)
            counted = _counted(subject, work, schedule, places)
            found[case].append([_whole(work, schedule, counted),
                                *(_of_groups(work, schedule, counted, group, places) for group in groups)])  # fmt: skip
    stacked = {case: [np.stack(part) for part in zip(*all_shakes, strict=True)] for case, all_shakes in found.items()}
    rows = [row for case in listed for row in _rows(subject, case, stacked[case], stacked[TODAY], groups, shakes)]
    return REPLAY.build(**{column.name: [row.get(column.name) for row in rows] for column in REPLAY.columns})


def groups_of(subject: Subject) -> tuple[Group, ...]:
    """The splits by size class and by user; the last user code is that of unknown users."""
    sizes = size_classes(subject.work.procs.astype(np.float64))
    users = subject.work.user
    return (
        Group("size", sizes, [size_name(size) for size in range(sizes.max(initial=0) + 1)]),
        Group("user", np.where(users < 0, len(subject.user_names), users), [*subject.user_names, None]),
    )


def _counted(subject: Subject, work: Workload, schedule: Schedule, places: Ints) -> Bools:
    """The scored jobs; under NATURAL the same jobs in every shake."""
    if subject.score is not Score.NATURAL:
        return scored(work, schedule, subject.score) & (work.submit_s >= subject.since_s)
    counted: Bools = (places >= len(work) // 100) & (subject.work.submit_s[places] >= subject.since_s)
    return counted


def _whole(work: Workload, schedule: Schedule, counted: Bools) -> Floats:
    """(1, figures + 1): the figures of all scored jobs, and their number."""
    found = metrics(work, schedule, counted)
    return np.array([[*(getattr(found, name) for name in WHOLE), found.n_jobs]])


def _of_groups(work: Workload, schedule: Schedule, counted: Bools, group: Group, places: Ints) -> Floats:
    """(groups, figures + 1): the figures of each group's scored jobs, and their number; NaN where there is none."""
    code, n = group.code[places[counted]], len(group.names)
    wait_s = (schedule.start_s - work.submit_s)[counted].astype(np.float64)
    n_jobs = np.bincount(code, minlength=n)
    longest_s = np.full(n, np.nan)
    np.fmax.at(longest_s, code, wait_s)
    sums = [np.bincount(code, values, n) for values in (bounded_slowdown(work, schedule)[counted], wait_s)]
    with np.errstate(invalid="ignore"):
        return np.column_stack([sums[0] / n_jobs, sums[1] / n_jobs, longest_s, n_jobs])


def _rows(
    subject: Subject, case: Case, own: list[Floats], today: list[Floats], groups: Sequence[Group], shakes: Shakes
) -> list[dict[str, Any]]:
    about = {
        "log": subject.log, "policy": policy_name(case.policy), "estimates": str(case.estimates),
        "correction": case.correction.name.lower(), "is_guarded": case.guard, "convention": subject.convention,
        "n_shakes": shakes.n, "has_waits": subject.has_waits,
    }  # fmt: skip
    parts = [("all", [None], WHOLE), *((group.part, group.names, OF_GROUP) for group in groups)]
    rows: list[dict[str, Any]] = []
    for (part, names, columns), values, base in zip(parts, own, today, strict=True):
        for statistic, figures in _statistics(columns, values, base, shakes).items():
            rows += [
                about | {"part": part, "part_value": name, "statistic": statistic} | one
                for name, one in zip(names, figures, strict=True)
                if one["n_jobs"]
            ]
    return rows


def _statistics(
    columns: Sequence[str], values: Floats, base: Floats, shakes: Shakes
) -> dict[str, list[dict[str, Any]]]:
    """Per statistic the figures of each group, and the changes from TODAY; `values` is (shakes, groups, figures)."""
    names = [*columns, "slowdown_change", "wait_change_s"]
    slowdown, wait_s = columns.index("slowdown_mean"), columns.index("wait_mean_s")
    change = values[..., slowdown] / base[..., slowdown] - 1
    change_s = values[..., wait_s] - base[..., wait_s]
    whole = np.concatenate([values[..., :-1], change[..., None], change_s[..., None]], axis=-1)
    n_jobs = np.median(values[..., -1], axis=0)
    found = {}
    for statistic, share in STATISTICS.items() if shakes.n else {"single": 0.5}.items():
        figures = np.quantile(whole, share, axis=0)
        found[statistic] = [
            {"n_jobs": int(n)} | {name: _known(value) for name, value in zip(names, row, strict=True)}
            for n, row in zip(n_jobs, figures, strict=True)
        ]
    return found


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
