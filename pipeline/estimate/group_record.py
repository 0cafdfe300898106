"""What ended jobs say of other sizes, requests and attributes: slopes, three hypotheses, likeness, as running sums.

A group is (submitter, program, memory). Its log runtimes may stay the same at another size or request, follow the
request, or follow the size by a power law: each ended job whose size or request is new to its group moves the record of
the three. A record of few jobs leans on the submitter's, and that on everybody's.
"""

import math
from typing import NamedTuple

import numpy as np

from pipeline.arrays import Floats, Ints
from pipeline.estimate.keys import grown
from pipeline.estimate.submits import TRAITS, Jobs
from pipeline.kernels import kernel

N, LOG_S, LOG_REQUEST, LOG_PROCS, PROCS_PROCS, PROCS_S, SAME, RATIO, CURVE, N_LOSSES, LEAST, N_APART = range(12)
"""Columns of a record: jobs, running means of logs, sums of squares and products, losses of the hypotheses, how many
they are of, the running mean of the least error, and jobs of which those of one array count as one."""

N_MEANS = LOG_PROCS + 1

NEWEST_SHARE = 0.25
"""Least share of the newest job in a running mean."""

APART = 0.1
"""Difference of logs (of requests, or of processors) from which a job tells the hypotheses apart."""

KEEPS = (0.97, 0.995, 0.9998)
"""What a new job leaves of a slope's sums: of a group, of a submitter, of all."""

FORGETS = (0.95, 0.99, 0.9995)
"""The same of the losses."""

STEEPEST = (-1.2, 1.0)
PARENT_JOBS, SHARPNESS, RATIO_AHEAD = 10.0, 3.0, 3.0
"""Weight of the submitter's mean loss in a group's record; steepness of the chances; lead of the ratio at first."""

COMPARED, DECAY, LEAST_APART, PRIOR_PAIRS, STEEPNESS = 6, 0.9999, 0.03, 200.0, 2.0
"""Likeness: jobs a new end is compared with, what a pair leaves of the sums, the least difference (log) of a pair,
weight of the settings in pairs, and the power of the ratio of differences."""


class Evidence(NamedTuple):
    """Records by (submitter, program, memory, processors), means only; by group, submitter, of all; pairs by trait.

    `unlike`: per trait the sum of the logs of differences and the number of pairs that differ in it alone; the last
    three rows are of pairs that differ in none: of all, of two arrays, and of one. The last key of the others is a
    blank one.
    """

    of_size: Floats
    of_group: Floats
    of_who: Floats
    of_all: Floats
    unlike: Floats


def no_evidence() -> Evidence:
    """Nothing known."""
    blank = np.zeros((1, N_APART + 1))
    blank[0, LOG_REQUEST] = np.nan
    of_size = blank[:, :N_MEANS].copy()
    return Evidence(of_size, blank.copy(), blank.copy(), blank.copy(), np.zeros((len(TRAITS) + 3, 2)))


def with_keys(held: Evidence, n_sizes: int, n_groups: int, n_who: int) -> Evidence:
    """The evidence with a row for each key."""
    return held._replace(
        of_size=grown(held.of_size, n_sizes), of_group=grown(held.of_group, n_groups), of_who=grown(held.of_who, n_who)
    )


@kernel
def observe(job: int, past: Jobs, held: Evidence, is_apart: bool) -> None:
    """Learn the runtime of an ended job of a known submitter; whether it is the first of its array, or in none."""
    size, group, who = held.of_size[past.size[job]], held.of_group[past.group[job]], held.of_who[past.who[job]]
    log_s, asked, procs = math.log(past.runtime_s[job]), past.log_request[job], past.log_size[job]
    if size[N] > 0:
        _judge(log_s, asked, procs, size, group, who, held.of_all[0])
    if group[N] > 0 and (size[N] == 0 or abs(procs - group[LOG_PROCS]) > APART):
        _judge(log_s, asked, procs, group, group, who, held.of_all[0])
    if who[N] > 0:
        _lean(log_s, procs, group, who, held.of_all[0])
    _mean(size, log_s, asked, procs)
    _mean(group, log_s, asked, procs)
    _mean(who, log_s, asked, procs)
    group[N_APART] += is_apart
    who[N_APART] += is_apart


@kernel
def _mean(row: Floats, log_s: float, asked: float, procs: float) -> None:
    row[N] += 1
    share = max(1 / row[N], NEWEST_SHARE)
    row[LOG_S] += share * (log_s - row[LOG_S])
    row[LOG_PROCS] += share * (procs - row[LOG_PROCS])
    if not np.isnan(asked):
        old = asked if np.isnan(row[LOG_REQUEST]) else row[LOG_REQUEST]
        row[LOG_REQUEST] = old + share * (asked - old)


@kernel
def _lean(log_s: float, procs: float, group: Floats, who: Floats, of_all: Floats) -> None:
    """Update the slopes' sums with the job's difference from its group's mean, from its submitter's if it is new."""
    base = group if group[N] > 0 else who
    up_s = min(max(log_s - base[LOG_S], -2.0), 2.0)
    up_procs = min(max(procs - base[LOG_PROCS], -3.0), 3.0)
    few = min(base[N], 4.0)
    weight = few / (few + 1)
    for level in range(3):
        row = group if level == 0 else who if level == 1 else of_all
        if level > 0 or group[N] > 0:
            row[PROCS_PROCS] = KEEPS[level] * row[PROCS_PROCS] + weight * up_procs * up_procs
            row[PROCS_S] = KEEPS[level] * row[PROCS_S] + weight * up_procs * up_s


@kernel
def slope(group: Floats, who: Floats, of_all: Floats) -> float:
    """Power of the processors that the group's runtimes follow."""
    found = of_all[PROCS_S] / (of_all[PROCS_PROCS] + 3)
    found = (who[PROCS_S] + 3 * found) / (who[PROCS_PROCS] + 3)
    found = (group[PROCS_S] + 6 * found) / (group[PROCS_PROCS] + 6)
    return float(min(max(found, STEEPEST[0]), STEEPEST[1]))


@kernel
def _judge(
    log_s: float, asked: float, procs: float, base: Floats, group: Floats, who: Floats, of_all: Floats
) -> None:  # fmt: skip
    """Update the losses, where the job's size or request differs from those of the mean that it is compared with."""
    up_asked = 0.0 if np.isnan(asked) or np.isnan(base[LOG_REQUEST]) else asked - base[LOG_REQUEST]
    up_procs = procs - base[LOG_PROCS]
    if abs(up_asked) <= APART and abs(up_procs) <= APART:
        return
    up_s = log_s - base[LOG_S]
    same, ratio = abs(up_s), abs(up_s - up_asked)
    curve = abs(up_s - slope(group, who, of_all) * up_procs)
    least = min(same, ratio, curve)
    group[LEAST] = least if group[N_LOSSES] == 0 else group[LEAST] + 0.1 * (least - group[LEAST])
    unit = max(0.1, group[LEAST])
    for level in range(3):
        row = group if level == 0 else who if level == 1 else of_all
        for place, error in ((SAME, same), (RATIO, ratio), (CURVE, curve)):
            row[place] = FORGETS[level] * row[place] - min(error - least, 2 * unit) / unit
        row[N_LOSSES] = FORGETS[level] * row[N_LOSSES] + 1


@kernel
def chances(group: Floats, who: Floats, of_all: Floats, found: Floats) -> bool:
    """Set the chances of: the same runtime, that times the ratio of requests, along the curve of sizes.

    Whether the ratio is clearly ahead, without its lead at first.
    """
    for place in range(3):
        mean = of_all[SAME + place] / (of_all[N_LOSSES] + 1)
        mean = (who[SAME + place] + PARENT_JOBS * mean) / (who[N_LOSSES] + PARENT_JOBS)
        found[place] = group[SAME + place] + PARENT_JOBS * mean
    is_ahead = found[1] - max(found[0], found[2]) >= 0.5 * (group[N_LOSSES] + PARENT_JOBS)
    found[1] += RATIO_AHEAD
    top, total = max(found[0], found[1], found[2]), 0.0
    for place in range(3):
        found[place] = math.exp(SHARPNESS * (found[place] - top))
        total += found[place]
    for place in range(3):
        found[place] /= total
    return bool(is_ahead)


@kernel
def compare(job: int, past: Jobs, ring: Ints, taken: int, unlike: Floats) -> None:
    """Learn how much log runtimes of jobs of one size that differ in one trait, or in none, lie apart.

    An ended job is compared with its submitter's latest ones.
    """
    n_traits, log_s = past.traits.shape[1], math.log(past.runtime_s[job])
    for back in range(min(taken, COMPARED)):
        other, differs, n_differ = ring[(taken - 1 - back) % len(ring)], n_traits, 0
        for trait in range(n_traits):
            if past.traits[job, trait] != past.traits[other, trait]:
                differs = trait
                n_differ += 1
        if n_differ > 1 or past.log_size[job] != past.log_size[other]:
            continue
        apart = abs(log_s - math.log(past.runtime_s[other]))
        _count_pair(unlike[differs], apart)
        if n_differ == 0 and past.array[job] >= 0 and past.array[other] >= 0:
            _count_pair(unlike[n_traits + 1 + (past.array[job] == past.array[other])], apart)


@kernel
def _count_pair(row: Floats, apart: float) -> None:
    row[0] = DECAY * row[0] + math.log(max(apart, LEAST_APART))
    row[1] = DECAY * row[1] + 1


@kernel
def log_of_array(unlike: Floats) -> float:
    """The log weight of a job of the same array, 0 or more: 0 until pairs show that an array's jobs are more alike."""
    apart, own = unlike[-2], unlike[-1]
    if apart[1] == 0 or own[1] == 0:
        return 0.0
    learnt = STEEPNESS * max(apart[0] / apart[1] - own[0] / own[1], 0.0)
    n_pairs = min(apart[1], own[1])
    return float(n_pairs * learnt / (n_pairs + PRIOR_PAIRS))


@kernel
def log_likeness(unlike: Floats, usual: Floats, found: Floats) -> None:
    """Set the log weight of a job with another value of each trait; `usual` counts until there are pairs."""
    last = len(found)
    for trait in range(last):
        n_pairs, found[trait] = unlike[trait, 1], usual[trait]
        if n_pairs > 0 and unlike[last, 1] > 0:
            learnt = STEEPNESS * min(unlike[last, 0] / unlike[last, 1] - unlike[trait, 0] / n_pairs, 0.0)
            found[trait] = (n_pairs * learnt + PRIOR_PAIRS * usual[trait]) / (n_pairs + PRIOR_PAIRS)
