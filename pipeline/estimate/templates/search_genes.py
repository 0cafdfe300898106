"""A template as a row of genes, each a small number, as in Smith's bit strings: what a search draws and mutates."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from pipeline.core.arrays import Ints
from pipeline.estimate.templates.smith import KEYS, MEDIAN_JOBS, Sight, Statistic, Template

STATISTICS: tuple[Statistic, ...] = ("mean", "median", "last", "linear", "inverse", "log")
PROCS: tuple[tuple[Literal["any", "log2", "linear"], float], ...] = (
    ("any", 1.0), ("linear", 1.0), ("linear", 4.0), ("log2", 1.0), ("log2", 2.0), ("log2", 3.0),
)  # fmt: skip
COUNTS = (None, 3, 5, 10, 20, 50, 100, 1000)
AGES_DAYS = (None, 7.0, 30.0, 90.0, 365.0)
LAST_K = (1, 2, 3, 5)


@dataclass(frozen=True, slots=True)
class Genes:
    """How many values each gene has: statistic, relative, processors, count, age, k, then a bit per attribute."""

    names: tuple[str, ...]
    sizes: Ints

    def template(self, row: Ints) -> Template:
        """The template a row of genes stands for; a bound its statistic rules out becomes the nearest it allows."""
        statistic, (procs_range, width), last_k = STATISTICS[row[0]], PROCS[row[2]], LAST_K[row[5]]
        max_count = COUNTS[row[3]]
        if statistic == "median":
            max_count = max_count or MEDIAN_JOBS
        if statistic == "last" and max_count:
            max_count = max(max_count, last_k + 1)
        return Template(
            attributes=tuple(name for name, bit in zip(self.names, row[6:], strict=True) if bit),
            procs_range=procs_range, procs_width=width, max_count=max_count, max_age_days=AGES_DAYS[row[4]],
            is_relative=bool(row[1]), statistic=statistic, last_k=last_k if statistic == "last" else 2,
        )  # fmt: skip

    def drawn(self, rng: np.random.Generator, n_rows: int) -> Ints:
        """Rows drawn at random, uniformly over the values of each gene."""
        return rng.integers(0, self.sizes, (n_rows, len(self.sizes)))

    def mutated(self, rng: np.random.Generator, rows: Ints, rate: float) -> Ints:
        """The rows with each gene changed, with probability `rate`, to another of its values."""
        shift = rng.integers(1, np.maximum(self.sizes, 2), rows.shape)
        return np.where(rng.random(rows.shape) < rate, (rows + shift) % self.sizes, rows)

    def neighbours(self, row: Ints) -> Ints:
        """Every row that differs in one gene."""
        rows = []
        for place, size in enumerate(self.sizes):
            for step in range(1, int(size)):
                other = row.copy()
                other[place] = (row[place] + step) % size
                rows.append(other)
        return np.array(rows)


def genes_of(sight: Sight) -> Genes:
    """The genes of a log: attributes with several values, and shares of the request where any job has one.

    An attribute with the values of an earlier one, as `who` has where every job names a user, is left out.
    """
    varied = [name for name in KEYS if sight.key(name).max(initial=-1) > max(sight.key(name).min(initial=0), -1)]
    names = tuple(
        name for place, name in enumerate(varied)
        if not any(np.array_equal(sight.key(name), sight.key(other)) for other in varied[:place])
    )  # fmt: skip
    n_relative = 2 if (sight.history.requested_s > 0).any() else 1
    sizes = [len(STATISTICS), n_relative, len(PROCS), len(COUNTS), len(AGES_DAYS), len(LAST_K), *[2] * len(names)]
    return Genes(names, np.array(sizes, np.int64))
