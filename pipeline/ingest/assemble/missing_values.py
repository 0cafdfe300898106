"""What the record that is kept of a job does not tell, from the other records of the same run.

Exports differ in their columns: one without MaxRSS, read later, must not empty what another one told.
"""

import numpy as np

from pipeline.core.arrays import Bools, Ints

SUPPLEMENTED = (
    "user", "user_group", "account", "application", "queue", "partition", "qos", "job_name", "problem_size",
    "eligible_s", "nodes", "gpus", "requested_procs", "requested_nodes", "requested_s", "requested_mem_kib",
    "requested_memory",
    "used_mem_kib", "max_rss_kib", "cpu_s", "energy_j", "exit_code", "derived_exit_code", "array_id", "het_id",
    "preceding_job_id", "think_s", "submit_tokens", "work_dir_hash",
)  # fmt: skip
"""Columns taken over; what tells how a job went (times, size, state) is the kept record's alone, null or not."""


def sources(ranks: dict[str, Ints], order: Ints, is_last: Bools) -> dict[str, Ints]:
    """By column, the row from which each kept row (`order[is_last]`) has its value, where any is another's.

    Rows are in order of the job they are records of; the last record of each is kept. A null is supplemented by the
    nearest record before that tells the value, if it started when the kept one did.
    """
    kept = np.flatnonzero(is_last)
    first = np.append(0, kept[:-1] + 1)[: len(kept)]
    start = ranks["start_s"][order] if "start_s" in ranks else np.zeros(len(order), np.int64)
    found = {}
    for name in SUPPLEMENTED:
        if name not in ranks:
            continue
        known = np.where(ranks[name][order] >= 0, np.arange(len(order)), -1)
        place = np.maximum.accumulate(known)[kept]
        place = np.where((place >= first) & (start[place] == start[kept]), place, kept)
        if (place != kept).any():
            found[name] = order[place]
    return found
