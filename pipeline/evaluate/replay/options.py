"""What a replay does: the policy, the correction of passed predictions, and the guard."""

from dataclasses import dataclass
from enum import IntEnum


class Policy(IntEnum):
    """The order in which waiting jobs start; jobs wait in order of submit."""

    FCFS = 0
    """Nothing starts before the first waiting job, the head."""
    EASY = 1
    """Later jobs may start where that does not delay the head's planned start; they are tried in order of submit."""
    EASY_SJBF = 2
    """EASY, in which later jobs are tried in ascending order of `Predictions.order`, the shortest first."""
    CONSERVATIVE = 3
    """Every waiting job has a planned start, which no later job may delay."""


class Correction(IntEnum):
    """The new prediction of a job that outlives its own, never above the request."""

    REQUEST = 0
    INCREMENTS = 1
    """The first prediction plus 1, 5, 15, 30 min, 1, 2, 5, 10, 20, 50, 100 h in turn (Tsafrir et al. 2007)."""
    DOUBLING = 2


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """How the jobs are scheduled."""

    policy: Policy = Policy.EASY
    correction: Correction = Correction.REQUEST
    guard: bool = False
    """Whether a head that is past its first promised start (planned with requests) is planned with requests from then
    on, as are the jobs that would start before it. Without effect under FCFS and CONSERVATIVE."""
    learns_last_two: bool = False
    """Whether predictions are the mean of the user's last two jobs that ended in the replay (Tsafrir et al. 2007),
    and the request until there are two; the predictions given are not used then."""


EASY_PLUS_PLUS = ReplayOptions(policy=Policy.EASY_SJBF, correction=Correction.INCREMENTS, learns_last_two=True)
"""EASY++ of Tsafrir, Etsion and Feitelson (2007)."""
