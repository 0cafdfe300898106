"""Which phases a prediction measures."""

import numpy as np
import numpy.typing as npt


def relevant(shares: npt.NDArray[np.float64], least_share: float, least_coverage: float) -> npt.NDArray[np.bool_]:
    """Phases of at least this share of the time, and as many more of the largest as cover `least_coverage` of it.

    Source: Wong et al. 2014, Section 3.3, step 6 (at least 1%); the coverage is an addition.
    """
    order = np.argsort(-shares, kind="stable")
    before = np.cumsum(shares[order]) - shares[order]
    chosen = np.empty(len(shares), np.bool_)
    # Sums of shares are rounded.
    chosen[order] = (shares[order] >= least_share) | (before < least_coverage - 1e-12)
    return chosen
