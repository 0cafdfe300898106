"""Free processors over future time as a step function: rows TIME and FREE of one array, one column a step.

The last step lasts for ever, and all processors are free in it.
"""

from pipeline.core.arrays import Ints
from pipeline.evaluate.replay.compiled import kernel
from pipeline.evaluate.replay.job_columns import FREE as FREE_NOW
from pipeline.evaluate.replay.job_columns import N_RUNNING, N_STEPS
from pipeline.evaluate.replay.running_jobs import END, HELD, freed_by

TIME, FREE = 0, 1


@kernel
def step_at(profile: Ints, n: int, time: int) -> int:
    """The last of the first n steps that begins by a time; the first one, if none does."""
    low, high = 0, n
    while high - low > 1:
        middle = (low + high) >> 1
        if profile[TIME, middle] <= time:
            low = middle
        else:
            high = middle
    return low


@kernel
def split(profile: Ints, time: int, state: Ints) -> int:
    """The step that begins at a time, which is made where there is none."""
    at = step_at(profile, state[N_STEPS], time)
    if profile[TIME, at] == time:
        return at
    for place in range(state[N_STEPS], at + 1, -1):
        profile[TIME, place] = profile[TIME, place - 1]
        profile[FREE, place] = profile[FREE, place - 1]
    profile[TIME, at + 1] = time
    profile[FREE, at + 1] = profile[FREE, at]
    state[N_STEPS] += 1
    return at + 1


@kernel
def take(profile: Ints, begin: int, end: int, procs: int, state: Ints) -> None:
    """Takes processors from `begin` until `end`; a negative number gives them back."""
    first = split(profile, begin, state)
    for place in range(first, split(profile, end, state)):
        profile[FREE, place] -= procs


@kernel
def least_free(profile: Ints, begin: int, end: int, state: Ints) -> int:
    """The smallest number of free processors from `begin` until `end`."""
    place = step_at(profile, state[N_STEPS], begin)
    least = profile[FREE, place]
    while place + 1 < state[N_STEPS] and profile[TIME, place + 1] < end:
        place += 1
        least = min(least, profile[FREE, place])
    return int(least)


@kernel
def earliest(profile: Ints, time: int, duration: int, procs: int, latest: int, state: Ints) -> int:
    """The first time from `time` on at which so many processors are free for so long; `latest` if none is earlier.

    A job that holds processors from `latest` on for `duration` finds its own earlier start so: what overlaps its own
    hold is free for it, so that only the time before `latest` needs to be looked at.
    """
    begin = time
    n = state[N_STEPS]
    for place in range(step_at(profile, n, time), n):
        if profile[TIME, place] >= latest:
            break
        if profile[FREE, place] < procs:
            begin = profile[TIME, place + 1]
        elif place + 1 == n or profile[TIME, place + 1] - begin >= duration:
            break
    return min(begin, latest)


@kernel
def merge(profile: Ints, time: int, state: Ints) -> None:
    """Removes the steps that ended by a time, and joins neighbours of the same height."""
    first = step_at(profile, state[N_STEPS], time)
    kept = 0
    for place in range(first, state[N_STEPS]):
        if kept == 0 or profile[FREE, place] != profile[FREE, kept - 1]:
            profile[TIME, kept] = profile[TIME, place]
            profile[FREE, kept] = profile[FREE, place]
            kept += 1
    state[N_STEPS] = kept


@kernel
def of_running(profile: Ints, plan: Ints, time: int, state: Ints) -> None:
    """Sets the profile to that of the running jobs alone, from a time on."""
    profile[TIME, 0] = time
    profile[FREE, 0] = state[FREE_NOW] + freed_by(plan, state[N_RUNNING], time)
    n = 1
    for place in range(state[N_RUNNING]):
        if plan[END, place] > profile[TIME, n - 1]:
            profile[TIME, n] = plan[END, place]
            profile[FREE, n] = profile[FREE, n - 1]
            n += 1
        if plan[END, place] > time:
            profile[FREE, n - 1] += plan[HELD, place]
    state[N_STEPS] = n
