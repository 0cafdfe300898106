"""A log with its queue, the State of a part of it, and questions as its later jobs would ask them."""

from dataclasses import replace
from functools import cache

import numpy as np
import pyarrow as pa

from pipeline.estimate.estimate_rules import EstimateRules
from pipeline.estimate.history import History, history
from pipeline.estimate.state import State
from pipeline.estimate.walltime import learn
from tests.rows import jobs_of

DAY_S = 86_400
SETTINGS = EstimateRules()


@cache
def busy_log(n_jobs: int = 1_500, seed: int = 0, n_users: int = 12) -> pa.Table:
    """Jobs that wait and overlap, in bursts, some stopped at their limit, cancelled, without request or user."""
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
    return learn(past, SETTINGS, float(past.submit_s[int(share * len(past))]))


def questions(past: History, state: State, places: np.ndarray) -> History:
    """Jobs as they would be submitted soon after the State's time; nothing is known of what becomes of them."""
    asked, n = past.take(np.sort(places)), len(places)
    return replace(
        asked, submit_s=state.as_of_s + 10.0 * np.arange(n), start_s=np.full(n, np.inf), end_s=np.full(n, np.inf),
        runtime_s=np.full(n, np.nan), is_lower_bound=np.zeros(n, np.bool_),
    )  # fmt: skip


def same_bits(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether two arrays hold the same bits, NaN too."""
    return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
