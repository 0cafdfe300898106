"""Which occurrences of a phase to time: evenly spaced ones, so that a drift over the run is sampled."""

import numpy as np
import numpy.typing as npt

Positions = npt.NDArray[np.int64]


def evenly_spaced(members: Positions, n_samples: int) -> Positions:
    """At most `n_samples` of the members, from the middles of as many equal pieces; all where there are fewer."""
    n = min(n_samples, len(members))
    if n == 0:
        return members[:0]
    middles = (2 * np.arange(n) + 1) * len(members) // (2 * n)
    return members[middles]
