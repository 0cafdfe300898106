"""Masks of jobs that something other than the application ended or held up: their runtime is not the application's.

A job that lost its node, or had to make room, ran at least that long, and `is_lower_bound` says so of it. It is set
aside all the same: a node often limps before it fails, and a preempted job may go on from a checkpoint, so that what
it ran says little of a whole run. A site that knows its machine better switches the flag off, and such jobs count as
lower bounds. One that ran out of memory is no bound: what it lacked is not time.
"""

import numpy as np

from pipeline.clean.job_arrays import JobArrays
from pipeline.core.arrays import Bools
from pipeline.core.clean_settings import CleanSettings

CLOCK_S = 2.0
"""Start, end and durations are each cut to whole seconds."""


def node_failure(arrays: JobArrays, _settings: CleanSettings) -> Bools:
    """True where the state says that a node, its boot or the launch on it failed."""
    return arrays.state_is("NODE_FAIL", "BOOT_FAIL", "LAUNCH_FAILED", "RECONFIG_FAIL")


def out_of_memory(arrays: JobArrays, _settings: CleanSettings) -> Bools:
    """True where the state says that the job ran out of memory."""
    return arrays.state_is("OUT_OF_MEMORY")


def preempted(arrays: JobArrays, _settings: CleanSettings) -> Bools:
    """True where the state says that the job was stopped to make room for another."""
    return arrays.state_is("PREEMPTED")


def suspended(arrays: JobArrays, settings: CleanSettings) -> Bools:
    """True where more than a share of the runtime is suspension that the log counted as running.

    Start, end, runtime and suspension show it: what of the suspension does not fit between start and end beside the
    runtime stands in the runtime. Where any of them is unknown, the runtime is taken at its word.
    """
    hidden_s = np.minimum(arrays.runtime_s + arrays.suspended_s - (arrays.end_s - arrays.start_s), arrays.suspended_s)
    hidden: Bools = (hidden_s > CLOCK_S) & (hidden_s > settings.suspended_share * arrays.runtime_s)
    return hidden
