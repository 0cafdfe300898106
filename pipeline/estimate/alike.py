"""Runtimes of all remembered jobs, weighted by how alike and how recent these are, running ones as lower bounds."""

import numpy as np

from pipeline.core.arrays import Floats
from pipeline.core.estimate_settings import ForecastSettings
from pipeline.estimate.alike_kernel import (
    N_ANY,
    N_ASKED,
    N_ENDED,
    N_RUNNING,
    Alikeness,
    Memory,
    Sample,
    Weights,
    weigh,
)
from pipeline.estimate.history import History
from pipeline.estimate.past import past_of, ranks
from pipeline.estimate.score import QUANTILES
from pipeline.estimate.sessions import session_codes

DAY_S = 86_400.0
LIKENESSES = ("other_request", "other_procs", "other_application", "other_group", "other_queue", "in_session")


def alike(history: History, settings: ForecastSettings) -> Floats:
    """(jobs, 5) quantiles, s, at most the request."""
    return alike_at(history, settings, np.array(QUANTILES))[:, :-1]


def alike_at(history: History, settings: ForecastSettings, shares: Floats) -> Floats:
    """(jobs, shares + 1): quantiles at ascending shares, s, and the weight of the user's own ended jobs."""
    past = past_of(history)
    features = alikeness(history, settings)
    capacity = N_ENDED + N_RUNNING + N_ANY
    sample = Sample(
        np.empty(capacity), np.empty(capacity), np.empty(capacity, np.bool_), np.empty(capacity, np.int64),
        (1 + np.arange(N_ENDED) / settings.rank_scale) ** -settings.rank_power,
        np.exp(-np.arange(N_ANY) / settings.others_scale),
    )  # fmt: skip
    memory = _empty_memory(int(past.user.max(initial=0)) + 1, int(features.asked.max(initial=0)) + 1)
    return weigh(past, features, _weights(settings), memory, sample, shares)


def alikeness(history: History, settings: ForecastSettings) -> Alikeness:
    """What jobs may share; places count from 0 within a burst of one user's jobs of one size and request."""
    asked, gap_s = ranks(history.requested_s), 60.0 * settings.burst_gap_min
    burst = session_codes(history, gap_s, asked, ranks(history.procs))
    return Alikeness(
        log_request=np.log(np.where(history.requested_s > 0, history.requested_s, np.nan)),
        log_procs=np.log(history.procs),
        asked=asked,
        burst=burst,
        application=history.codes["application"],
        user_group=history.codes["user_group"],
        queue=history.codes["queue"],
        place=np.log1p(_places(burst)),
        hour=(history.local_s % 86_400) / 3600.0,
    )


def _places(codes: np.ndarray) -> Floats:
    """How many earlier jobs have the same code."""
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-2))
    places = np.empty(len(codes))
    places[order] = np.arange(len(codes)) - np.repeat(starts, np.diff(starts, append=len(codes)))
    return places


def _empty_memory(n_users: int, n_asked: int) -> Memory:
    def ring(n_keys: int, size: int) -> tuple[np.ndarray, np.ndarray]:
        return np.full((n_keys, size), -1, np.int64), np.zeros(n_keys, np.int64)

    return Memory(*ring(n_users, N_ENDED), *ring(n_users, N_RUNNING), *ring(n_asked, N_ASKED), *ring(1, N_ANY))


def _weights(settings: ForecastSettings) -> Weights:
    named = {name: getattr(settings, name) for name in Weights._fields if hasattr(settings, name)}
    logs = {f"log_{name}": np.log(getattr(settings, name)) for name in LIKENESSES}
    return Weights(**named, **logs, age_s=DAY_S * settings.age_days, session_s=60.0 * settings.session_min)
