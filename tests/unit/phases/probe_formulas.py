"""Equations (4.3) to (4.9) of Strube (2011): a program's runtime from its probes, and the performance of master/worker.

The steady performance of a hierarchical master/worker system is in operations per second, an amount of data in bytes,
and a throughput in bytes per second.
"""

from collections.abc import Iterable

from pipeline.arrays import Floats


def instrumentation_factor(uninstrumented_s: float, instrumented_s: float) -> float:
    """The inverse of the noise (4.3): runtime of the reference without instrumentation over that with it."""
    if not (uninstrumented_s > 0 and instrumented_s > 0):
        raise ValueError(f"runtimes are positive, not {uninstrumented_s:g} s and {instrumented_s:g} s")
    return uninstrumented_s / instrumented_s


def expanded_runtime(
    reference_s: float, shares: Floats, phase_reference_s: Floats, phase_probed_s: Floats, factor: float = 1.0
) -> float:
    """Equation (4.7): the runtime elsewhere, s.

    Parameters
    ----------
    reference_s : float
        Runtime with instrumentation on the reference (ET_ref), s.
    shares : array of shape (phases,)
        Each phase's measured share of that time. Shares of intervals are biased where intervals of one phase take
        different times. Shares that sum to less than 1 are divided by their sum.
    phase_reference_s, phase_probed_s : arrays of shape (phases,)
        Time of the probe of each phase on the reference and elsewhere, s.
    factor : float
        See `instrumentation_factor`; 1 where probes and reference are not instrumented.

    Raises
    ------
    ValueError
        Where a share or a time on the reference is not positive.
    """
    if len(shares) == 0 or not ((shares > 0).all() and (phase_reference_s > 0).all()):
        raise ValueError("every phase needs a positive share and a positive time on the reference")
    unit_values = reference_s * shares / shares.sum() / phase_reference_s
    return float((unit_values * phase_probed_s).sum() * factor)


def worker_performance(task_operations: float, task_s: float) -> float:
    """Operations per second of a worker, from the runtime of one task that its probe predicts, s."""
    _check_positive(task_operations=task_operations, task_s=task_s)
    return task_operations / task_s


def cluster_performance(workers: Iterable[float]) -> float:
    """Equation (4.9): the sum of the available performances of the workers of a cluster, operations per second."""
    return float(sum(workers))


def steady_performance(
    cluster: float,
    task_operations: float,
    lan_bytes_per_s: float,
    task_communication_bytes: float,
    n_tasks: int,
    internet_in_bytes_per_s: float,
    inter_task_bytes: float,
    internet_out_bytes_per_s: float,
    inter_result_bytes: float,
) -> float:
    """Equation (4.8): what a cluster contributes once all its workers are busy, operations per second.

    Parameters
    ----------
    cluster : float
        Available performance of the cluster by (4.9), operations per second.
    task_operations : float
        Operations of one task (Oper).
    lan_bytes_per_s, task_communication_bytes : float
        Throughput inside the cluster (TPut_EC), and all communication of one task (S_Comm).
    n_tasks : int
        Tasks of an inter-cluster message (N).
    internet_in_bytes_per_s, inter_task_bytes : float
        Throughput into the cluster (TPut_InetIN), and the size of an inter-cluster task (S_TaskInter).
    internet_out_bytes_per_s, inter_result_bytes : float
        Throughput out of it (TPut_InetOUT), and the size of an inter-cluster result (S_ResultInter).

    Raises
    ------
    ValueError
        Where an argument is not positive.
    """
    _check_positive(**locals())
    return min(
        cluster,
        task_operations * lan_bytes_per_s / task_communication_bytes,
        task_operations * n_tasks * internet_in_bytes_per_s / inter_task_bytes,
        task_operations * n_tasks * internet_out_bytes_per_s / inter_result_bytes,
    )


def _check_positive(**values: float) -> None:
    for name, value in values.items():
        if not value > 0:
            raise ValueError(f"{name} = {value:g}, expected a positive number")
