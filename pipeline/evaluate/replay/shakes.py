"""Shaken workloads: the same jobs with slightly other arrivals, as one replay is one sample of a chaotic system.

Two versions of one log that differ by 13 jobs gave mean bounded slowdowns of 56 and 64. Figures are therefore medians
over shakes, and two methods are compared shake by shake.
"""

from dataclasses import dataclass, replace

import numpy as np

from pipeline.core.arrays import Ints
from pipeline.evaluate.replay.workload import Workload


@dataclass(frozen=True, slots=True)
class Shakes:
    """How often and how far arrivals are shaken; without shakes the log is replayed once as it is."""

    n: int = 20
    seed: int = 1
    jitter_s: int = 600
    """Each submit moves by at most this, in either direction."""


def shaken(work: Workload, shakes: Shakes, nth: int) -> tuple[Workload, Ints]:
    """The nth shake (from 0) of a workload, and the place in `work` of each of its jobs.

    Submits move independently and uniformly, in whole seconds. A user's jobs keep their order, so that sessions stay
    sessions: with 600 s, submits more than 20 min apart cannot pass one another in any case. The same seed and number
    give the same arrivals, whatever is replayed with them.
    """
    random = np.random.default_rng((shakes.seed, nth))
    moved_s = work.submit_s + random.integers(-shakes.jitter_s, shakes.jitter_s, len(work), endpoint=True)
    # Each job of an unknown user counts as a user's only one.
    user = np.where(work.user < 0, work.user.max(initial=-1) + 1 + np.arange(len(work)), work.user)
    submit_s = np.empty_like(work.submit_s)
    submit_s[np.argsort(user, kind="stable")] = moved_s[np.lexsort((moved_s, user))]
    places = np.argsort(submit_s, kind="stable")
    return replace(work.take(places), submit_s=submit_s[places]), places
