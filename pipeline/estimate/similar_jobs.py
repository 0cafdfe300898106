"""Quantiles of remembered runtimes, weighted by similarity and recency; running jobs count as lower bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pipeline.core.arrays import Floats, Ints
from pipeline.estimate.keys import grown
from pipeline.estimate.similar_jobs_kernel import N_ANY, N_ASKED, N_ENDED, N_RUNNING, Memory, Sample, Weights, weigh
from pipeline.estimate.submits import Events, Jobs

if TYPE_CHECKING:
    from pipeline.core.estimate_settings import ForecastSettings

DAY_S = 86_400.0
LIKENESSES = ("other_request", "other_procs", "other_application", "other_group", "other_queue", "in_session")


def similar_jobs_quantiles(
    jobs: Jobs, past: Jobs, events: Events, settings: ForecastSettings, memory: Memory, shares: Floats
) -> Floats:
    """(jobs, shares + 1): quantiles at ascending shares, s, at most the request; the weight of the user's ended jobs.

    `memory` is updated with the events.
    """
    capacity = N_ENDED + N_RUNNING + max(N_ANY, N_ASKED)
    sample = Sample(
        np.empty(capacity), np.empty(capacity), np.empty(capacity, np.bool_), np.empty(capacity, np.int64),
        (1 + np.arange(N_ENDED) / settings.rank_scale) ** -settings.rank_power,
        np.exp(-np.arange(N_ANY) / settings.others_scale),
    )  # fmt: skip
    return weigh(jobs, past, events, _weights(settings), memory, sample, shares)


def no_memory() -> Memory:
    """An empty memory: only the blank keys, and the ring of all jobs."""

    def ring(size: int) -> tuple[Ints, Ints]:
        return np.full((1, size), -1, np.int64), np.zeros(1, np.int64)

    return Memory(*ring(N_ENDED), *ring(N_RUNNING), *ring(N_ASKED), *ring(N_ANY))


def with_keys(memory: Memory, n_who: int, n_requests: int) -> Memory:
    """The memory with a row for each submitter and each requested time."""
    by_who = {name: grown(getattr(memory, name), n_who) for name in ("ended", "n_ended", "running", "n_running")}
    by_request = {name: grown(getattr(memory, name), n_requests) for name in ("asked", "n_asked")}
    return memory._replace(**by_who, **by_request)


def places_of(memory: Memory) -> list[Ints]:
    """The rings that hold places of jobs."""
    return [memory.ended, memory.running, memory.asked, memory.latest]


def _weights(settings: ForecastSettings) -> Weights:
    logs = {f"log_{name}": np.log(getattr(settings, name)) for name in LIKENESSES}
    made = logs | {"age_s": DAY_S * settings.age_days, "session_s": 60.0 * settings.session_min}
    return Weights(**made, **{name: getattr(settings, name) for name in Weights._fields if name not in made})
