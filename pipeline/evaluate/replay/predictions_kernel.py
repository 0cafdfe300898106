"""Predictions that change in a replay: a passed one is corrected, and EASY++ learns from the jobs that ended."""

from pipeline.core.arrays import Ints
from pipeline.evaluate.replay.compiled import kernel
from pipeline.evaluate.replay.job_columns import (
    CORRECTION,
    CORRECTIONS,
    FIRST,
    LEARNS,
    PLANNED,
    REQUEST,
    RUN,
    START,
    USER,
)  # fmt: skip

REQUEST_AT_ONCE, INCREMENTS, DOUBLING = 0, 1, 2
"""As in options.Correction."""

STEPS_S = (60, 300, 900, 1800, 3600, 7200, 18_000, 36_000, 72_000, 180_000, 360_000)
"""Tsafrir, Etsion and Feitelson (2007): added to the first prediction at the first, second ... correction."""


@kernel
def correct(job: int, jobs: Ints, result: Ints, options: Ints) -> None:
    """Gives a job that outlived its prediction a longer one, at most the request."""
    request = jobs[job, REQUEST]
    n = result[job, CORRECTIONS]
    if options[CORRECTION] == INCREMENTS and n < len(STEPS_S):
        jobs[job, PLANNED] = min(result[job, FIRST] + STEPS_S[n], request)
    elif options[CORRECTION] == DOUBLING:
        jobs[job, PLANNED] = min(2 * jobs[job, PLANNED], request)
    else:
        jobs[job, PLANNED] = request
    result[job, CORRECTIONS] = n + 1


@kernel
def is_passed(job: int, jobs: Ints, result: Ints, time: int) -> bool:
    """Whether a running job's prediction ends by this time, and the job after its prediction."""
    planned = jobs[job, PLANNED]
    return bool(planned < jobs[job, RUN] and result[job, START] + planned <= time)


@kernel
def predict(job: int, jobs: Ints, result: Ints, last_two: Ints, options: Ints) -> None:
    """Notes a submitted job's first prediction: the one given, or what EASY++ has learnt."""
    user = jobs[job, USER]
    if options[LEARNS] == 1:
        jobs[job, PLANNED] = jobs[job, REQUEST]
        if user >= 0 and last_two[user, 1] >= 0:
            mean = (last_two[user, 0] + last_two[user, 1]) // 2
            jobs[job, PLANNED] = min(max(mean, 1), jobs[job, REQUEST])
    result[job, FIRST] = jobs[job, PLANNED]


@kernel
def learn(job: int, jobs: Ints, last_two: Ints) -> None:
    """Remembers the runtime of a job that ended as its user's last one."""
    user = jobs[job, USER]
    if user >= 0:
        last_two[user, 1] = last_two[user, 0]
        last_two[user, 0] = jobs[job, RUN]
