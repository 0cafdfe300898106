"""Orders that kernels need; np.sort and its like are not for kernels, as `pipeline.kernels` says."""

import numpy as np

from pipeline.arrays import Array, Floats, Ints
from pipeline.kernels import called_kernel, sort_in_place


@called_kernel
def sort_numbers(values: Array) -> None:
    """Sort numbers in place."""
    sort_in_place(values, values)


@called_kernel
def set_order(order: Ints, values: Floats, is_bound: Floats) -> None:
    """Set `order` to codes of the places of positive `values`, ascending, of equal ones those that are no bound first.

    The place is the code's last nine bits, `code & 511`. Bits of positive floats are ordered as they are; the last ten
    are given up for the place and the bound.
    """
    bits = values.view(np.int64)
    for place in range(len(order)):
        order[place] = (bits[place] & ~1023) | (512 if is_bound[place] else 0) | place
    sort_numbers(order)
