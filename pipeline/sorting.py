"""A sort that kernels call: np.sort and its like are not for kernels, as `pipeline.kernels` says."""

from pipeline.arrays import Array
from pipeline.kernels import called_kernel


@called_kernel
def sort_numbers(values: Array) -> None:
    """Sort up to about a thousand numbers in place: insertion with shrinking gaps (Shell 1959, Ciura 2001)."""
    for gap in (301, 132, 57, 23, 10, 4, 1):
        for place in range(gap, len(values)):
            value, to = values[place], place
            while to >= gap and values[to - gap] > value:
                values[to] = values[to - gap]
                to -= gap
            values[to] = value
