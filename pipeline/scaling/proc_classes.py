"""Classes of processor counts that parallel codes require."""

from collections.abc import Callable

import numpy as np

from pipeline.arrays import Bools, Floats


def powers_of_two(procs: Floats) -> Bools:
    """Whether each count is a power of two."""
    return np.asarray(np.log2(procs) % 1 == 0)


def squares(procs: Floats) -> Bools:
    """Whether each count is the square of a whole number."""
    return np.asarray(np.rint(np.sqrt(procs)) ** 2 == procs)


CLASSES: dict[str, Callable[[Floats], Bools]] = {"powers_of_two": powers_of_two, "squares": squares}
NODE_MULTIPLES = "node_multiples"


def class_names(node_procs: int | None) -> list[str]:
    """The classes looked for; multiples of a node where its size is known."""
    return [*CLASSES] + ([NODE_MULTIPLES] if node_procs else [])


def in_class(name: str, procs: Floats, node_procs: int | None) -> Bools:
    """Whether each size belongs to a class."""
    return CLASSES[name](procs) if name in CLASSES else np.asarray(procs % (node_procs or 1) == 0)
