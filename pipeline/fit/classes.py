"""Classes of processor counts an application may be made for."""

import numpy as np

from pipeline.core.arrays import Bools, Floats
from pipeline.core.proc_classes import powers_of_two, squares

POWERS_OF_TWO, SQUARES, NODE_MULTIPLES = "powers_of_two", "squares", "node_multiples"


def class_names(node_procs: int | None) -> list[str]:
    """The patterns looked for; multiples of a node where its size is known."""
    return [POWERS_OF_TWO, SQUARES] + ([NODE_MULTIPLES] if node_procs else [])


def in_class(name: str, procs: Floats, node_procs: int | None) -> Bools:
    """Whether each size belongs to a class."""
    if name == POWERS_OF_TWO:
        return powers_of_two(procs)
    if name == SQUARES:
        return squares(procs)
    return np.asarray(procs % (node_procs or 1) == 0)
