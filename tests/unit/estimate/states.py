"""Made logs: a busy one with a queue, one of plain jobs, and their States."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from pipeline.arrays import Floats
from pipeline.estimate.history import History, history
from pipeline.estimate.questions import questions_of
from pipeline.estimate.state import State, estimate, learn, loaded_state
from pipeline.tables import STATE
from tests.rows import jobs_of

DAY_S = 86_400


@cache
def busy_log(n_jobs: int = 1_500, seed: int = 0, n_users: int = 12) -> pa.Table:
    """Jobs that wait and overlap, in bursts, a fifth stopped at its limit; some cancelled, without request or user."""
    generator = np.random.default_rng(seed)
    submit_s = np.sort(generator.integers(0, 60 * DAY_S, n_jobs // 3).repeat(3) + generator.integers(0, 400, n_jobs))
    return jobs_of([_row(generator, place, int(submit), n_users) for place, submit in enumerate(submit_s)])


def _row(generator: np.random.Generator, place: int, submit_s: int, n_users: int) -> dict[str, object]:
    user = int(generator.integers(0, n_users)) * (place + 1) // 1_500
    requested_s = float(generator.choice([600, 3_600, 14_400, 86_400]))
    runtime_s = round(min(60 * 3.0 ** (user % 7) * generator.lognormal(0, 0.8), requested_s), 1)
    wait_s = int(generator.choice([0, 0, 60, 3_600, 40_000]))
    row: dict[str, object] = {
        "user": f"u{user}" if generator.random() > 0.02 else None, "application": f"a{generator.integers(0, 5)}",
        "user_group": f"g{user % 3}", "queue": str(generator.choice(["short", "long"])), "submit_s": submit_s,
        "procs": int(2 ** generator.integers(0, 6)), "requested_s": requested_s if generator.random() > 0.1 else None,
        "requested_procs": None, "start_s": submit_s + wait_s, "end_s": int(submit_s + wait_s + runtime_s),
        "runtime_s": runtime_s, "is_lower_bound": runtime_s == requested_s,
    }  # fmt: skip
    if generator.random() < 0.05:
        return row | {"start_s": None, "runtime_s": None, "end_s": submit_s + wait_s + 5, "state": "CANCELLED"}
    return row


@cache
def learnt(seed: int = 0, share: float = 0.7) -> State:
    """The State of the first part of a busy log."""
    past = history(busy_log(seed=seed))
    return learn(past, float(past.submit_s[int(share * len(past))]))


def questions(past: History, state: State, places: np.ndarray) -> History:
    """Jobs as they would be submitted soon after the State's time; nothing is known of what becomes of them."""
    asked = past.take(np.sort(places)).as_submitted()
    return replace(asked, submit_s=state.as_of_s + 10.0 * np.arange(len(places)))


def as_of(jobs: pa.Table, at_s: float) -> pa.Table:
    """The records of jobs submitted by a time as the log has them then: open jobs without what comes later."""
    rows = jobs.to_pylist()
    known = [row for row in rows if row["submit_s"] <= at_s]
    for row in known:
        if row["end_s"] > at_s:
            has_started = row["start_s"] is not None and row["start_s"] <= at_s
            row.update(end_s=None, runtime_s=None, is_lower_bound=None, state="RUNNING")
            row.update({} if has_started else {"state": "PENDING", "start_s": None})
    return pa.Table.from_pylist(known, schema=jobs.schema)


def differing(one: pa.Table, other: pa.Table) -> list[str]:
    """The arrays of two STATEs that differ in any bit."""
    first, second = ({row["array"]: repr(row) for row in STATE.check(table).to_pylist()} for table in (one, other))
    return [name for name in {**first, **second} if first.get(name) != second.get(name)]


def same_bits(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether two arrays hold the same bits, NaN too."""
    return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()


def plain(runtime_s: Sequence[float] | Floats, gap_s: float = 3600.0, **columns: Any) -> list[dict[str, Any]]:
    """Jobs that start at once, one each `gap_s`; a list or an array as a column has one value a job."""
    n = len(runtime_s)
    each = {name: value if isinstance(value, list | np.ndarray) else [value] * n for name, value in columns.items()}
    submit_s = each.pop("submit_s", np.arange(n) * gap_s)
    return [
        {"submit_s": int(at), "start_s": int(at), "end_s": int(at + run), "runtime_s": float(run), "procs": 4}
        | {name: values[k].item() if isinstance(values[k], np.generic) else values[k] for name, values in each.items()}
        for k, (at, run) in enumerate(zip(submit_s, runtime_s, strict=True))
    ]


def answer_of(rows: list[dict[str, Any]], later_s: float = 0.0, **job: Any) -> Floats:
    """(7,) quantiles, s, of a job that is submitted after the last end of a log, from the State as of that time."""
    log = history(jobs_of(sorted(rows, key=lambda row: row["submit_s"])))
    state = learn(log, float(log.end_s[np.isfinite(log.end_s)].max()))
    asked = {"user": "ada", "application": "solver", "procs": 4} | job
    return estimate(state, questions_of([asked], np.array([state.as_of_s + later_s]), "UTC"))[0]


def as_loaded(state: pa.Table) -> State:
    """The State of a STATE."""
    return loaded_state(state, "here")
