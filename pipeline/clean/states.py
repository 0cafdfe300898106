"""Masks of jobs that were ended or delayed from outside, so that their runtime is not the application's.

A job that lost its node or was preempted would have run longer, and `is_lower_bound` is true for it. It is set aside
nevertheless: nodes are often slow before they fail, and a preempted job may continue from a checkpoint. A site can
switch the flag off; such jobs then count as lower bounds. A job that ran out of memory is no lower bound.
"""

import numpy as np

from pipeline.clean.job_arrays import JobArrays
from pipeline.core.arrays import Bools
from pipeline.core.clean_settings import CleanSettings

CLOCK_S = 2.0
"""Tolerance (s), because start, end and durations are each truncated to whole seconds."""


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
    """True where suspension that the log counts as runtime exceeds `suspended_share` of the runtime.

    That suspension is runtime + suspended time - (end - start). Where one of these is unknown, it counts as zero.
    """
    hidden_s = np.minimum(arrays.runtime_s + arrays.suspended_s - (arrays.end_s - arrays.start_s), arrays.suspended_s)
    hidden: Bools = (hidden_s > CLOCK_S) & (hidden_s > settings.suspended_share * arrays.runtime_s)
    return hidden
