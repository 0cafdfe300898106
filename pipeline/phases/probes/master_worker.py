"""Equations (4.8) and (4.9) of Strube (2011): the steady performance of a hierarchical master/worker system.

A performance is in operations per second, an amount of data in bytes, and a throughput in bytes per second.
"""

from collections.abc import Iterable


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
