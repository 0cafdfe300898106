"""The cost of a run: nodes, processor-hours, and a price. Whole nodes are charged where the node size is known."""

from dataclasses import dataclass

import numpy as np

from pipeline.core.arrays import Floats


@dataclass(frozen=True, slots=True)
class CostSettings:
    """`procs_per_node`: processors of a node (None: unknown). `rate`: price of a processor-hour (None: unknown)."""

    procs_per_node: int | None = None
    rate: float | None = None


@dataclass(frozen=True, slots=True)
class Cost:
    """Per count: nodes (NaN: unknown), processor-hours of the processors charged, and their price (NaN: no rate)."""

    nodes: Floats
    proc_hours: Floats
    price: Floats


def cost_of(procs: Floats, runtime_s: Floats, settings: CostSettings) -> Cost:
    """The cost of runs on `procs` processors that take `runtime_s`; the last node is charged whole.

    Parameters
    ----------
    procs : Floats
        float64[n], processors.
    runtime_s : Floats
        float64[n], runtimes, s.
    settings : CostSettings
        Processors per node, and price of a processor-hour.

    Returns
    -------
    Cost
        Arrays of n values: nodes, processor-hours, price.

    Examples
    --------
    >>> cost = cost_of(np.array([6.0]), np.array([3600.0]), CostSettings(procs_per_node=4, rate=0.5))
    >>> float(cost.nodes[0]), float(cost.proc_hours[0]), float(cost.price[0])
    (2.0, 8.0, 4.0)
    """
    nodes = np.full(len(procs), np.nan)
    charged = np.asarray(procs, np.float64)
    if settings.procs_per_node:
        nodes = np.ceil(charged / settings.procs_per_node)
        charged = nodes * settings.procs_per_node
    proc_hours = charged * runtime_s / 3600
    return Cost(nodes, proc_hours, proc_hours * (np.nan if settings.rate is None else settings.rate))
