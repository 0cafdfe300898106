"""Projects frequency vectors to few dimensions, which nearly keeps their distances (Johnson and Lindenstrauss)."""

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from pipeline.phases.probes.frequency_vectors import FrequencyVectors


def project(vectors: FrequencyVectors, dimensions: int, seed: int) -> npt.NDArray[np.float64]:
    """Points of shape (intervals, dimensions): each interval's shares of blocks times a random matrix.

    The entries of the matrix are uniform in [-1, 1], as in SimPoint 3.2. Programs with no more blocks than
    dimensions keep their shares as they are.
    """
    shares = vectors.count / np.repeat(vectors.totals, np.diff(vectors.first_entry))
    n_blocks = len(vectors.block_ids)
    rows = csr_array((shares, vectors.block, vectors.first_entry), shape=(vectors.n_intervals, n_blocks))
    if n_blocks <= dimensions:
        return np.asarray(rows.toarray())
    matrix = np.random.default_rng(seed).uniform(-1, 1, (n_blocks, dimensions))
    return np.asarray(rows @ matrix)
