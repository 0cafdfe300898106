"""What the runs of each group are counted in: GPUs where their number varies, and processors follow them or stay."""

import numpy as np
import pyarrow as pa

from pipeline.arrays import Bools, Floats, Ints, floats, job_procs
from pipeline.schema import Axis
from pipeline.settings import AxisChoice

COUNTED = ("procs", "requested_procs", "nodes", "gpus")
"""The columns of JOBS that an axis is chosen by."""

MOST = 0.9
"""Least share of a group's runs that have one ratio of processors to GPUs (or to nodes), or one number of processors;
the others are runs whose number of processors was typed by hand."""


def axes_and_counts(jobs: pa.Table, codes: Ints, n_groups: int, wanted: AxisChoice) -> tuple[list[Axis], Ints]:
    """The axis of each group, and per job its count on the axis of its group.

    Parameters
    ----------
    jobs : pa.Table
        Jobs that have a group, all of each group, with the columns COUNTED.
    codes : Ints
        int64[n], the number of each job's group, from 0.
    n_groups : int
        Number of groups.
    wanted : AxisChoice
        auto: GPUs where the runs of a group scale over them, else processors. gpus, nodes: these where every run of
        a group tells their number (nodes: and has about the same processors on each), else processors.

    Returns
    -------
    axes : list of Axis
        One value per group.
    counts : Ints
        int64[n], processors, nodes or GPUs.
    """
    procs = job_procs(jobs)
    is_gpus = np.zeros(n_groups, np.bool_)
    is_nodes = np.zeros(n_groups, np.bool_)
    if wanted in ("auto", "gpus") and jobs.column("gpus").null_count < jobs.num_rows:
        is_gpus = _over_gpus(codes, floats(jobs, "gpus"), procs, n_groups, is_always=wanted == "gpus")
    if wanted == "nodes":
        nodes = floats(jobs, "nodes")
        is_nodes = _all(codes, nodes > 0, n_groups) & (_alike(codes, _ratio(procs, nodes), n_groups) >= MOST)
    axes = [
        Axis.GPUS if gpus else Axis.NODES if nodes else Axis.PROCS
        for gpus, nodes in zip(is_gpus, is_nodes, strict=True)
    ]
    counts = procs
    if is_gpus.any():
        counts = np.where(is_gpus[codes], floats(jobs, "gpus"), counts)
    if is_nodes.any():
        counts = np.where(is_nodes[codes], floats(jobs, "nodes"), counts)
    return axes, counts.astype(np.int64)


def _over_gpus(codes: Ints, gpus: Floats, procs: Floats, n_groups: int, *, is_always: bool) -> Bools:
    """Groups whose runs all hold GPUs, in numbers that vary, while processors follow them or stay the same."""
    has_gpus = _all(codes, gpus > 0, n_groups)
    if is_always or not has_gpus.any():
        return has_gpus
    most, least = np.zeros(n_groups), np.full(n_groups, np.inf)
    np.fmax.at(most, codes, gpus)
    np.fmin.at(least, codes, gpus)
    follows = np.maximum(_alike(codes, _ratio(procs, gpus), n_groups), _alike(codes, procs, n_groups)) >= MOST
    return has_gpus & (most > least) & follows


def _ratio(procs: Floats, counts: Floats) -> Floats:
    """Processors on each of what is counted; 0 where nothing is."""
    return np.where(counts > 0, procs / np.where(counts > 0, counts, 1.0), 0.0)


def _all(codes: Ints, holds: Bools, n_groups: int) -> Bools:
    """Per group whether it holds for all its jobs."""
    found: Bools = np.bincount(codes, ~holds, n_groups) == 0
    return found


def _alike(codes: Ints, values: Floats, n_groups: int) -> Floats:
    """Per group the share of its jobs that have its most common value."""
    order = np.lexsort((values, codes))
    starts = np.flatnonzero(np.append(True, (np.diff(codes[order]) != 0) | (np.diff(values[order]) != 0))[: len(order)])
    most = np.zeros(n_groups)
    np.maximum.at(most, codes[order][starts], np.diff(starts, append=len(order)))
    return most / np.maximum(np.bincount(codes, minlength=n_groups), 1)
