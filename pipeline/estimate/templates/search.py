"""Greedy and genetic search for a log's templates (Smith, Foster & Taylor 1998, 2004), on a training period only.

Random numbers are drawn in one thread and errors are pure, so that the result does not depend on the workers.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal

import numpy as np
from pydantic import Field

from pipeline.arrays import Floats, Ints
from pipeline.estimate.history import History
from pipeline.estimate.templates.smith import KEYS, MEDIAN_JOBS, Errors, Sight, Statistic, Template
from pipeline.settings import Section

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


class SearchSettings(Section):
    """How long and how widely a search looks."""

    method: Literal["greedy", "genetic", "both"] = Field(
        "both", description="both: the greedy set joins the first population."
    )
    max_templates: int = Field(10, ge=1, le=100, description="Templates a set may have.")
    greedy_pool: int = Field(300, ge=1, description="Templates drawn at random that a greedy step chooses from.")
    greedy_gain: float = Field(
        0.001, ge=0, lt=1, description="Share of the error a template has to take away to be added."
    )
    population: int = Field(40, ge=2, description="Sets in a generation.")
    generations: int = Field(80, ge=1, description="Generations.")
    n_elite: int = Field(2, ge=0, description="Best sets that pass unchanged into the next generation.")
    fitness_spread: float = Field(4.0, ge=1, description="How many times as fit the best set is as the worst one.")
    mutation_rate: float = Field(0.02, ge=0, le=1, description="Share of a child's genes that change by chance.")


@dataclass(frozen=True, slots=True)
class Moment:
    """Progress of a search: steps done, all steps, and the least error so far, s."""

    stage: str
    done: int
    total: int
    error_s: float


@dataclass(frozen=True, slots=True)
class Found:
    """The set of templates, its mean absolute error on the training period (s), and over how many jobs."""

    templates: tuple[Template, ...]
    error_s: float
    n_jobs: int
    until_s: float
    method: str
    seed: int


OnStep = Callable[[Moment], bool]
"""Called after every step; returns whether to continue. If not, the best set so far is the result."""

Rank = Callable[[Callable[[Sequence[Template]], float], Sequence[Sequence[Template]]], Floats]


def search(
    history: History,
    until_s: float,
    settings: SearchSettings | None = None,
    seed: int = 0,
    workers: int = 1,
    on_step: OnStep = lambda _: True,
) -> Found:
    """The best set of templates on the log as known at `until_s`, without templates that do not lower its error.

    Parameters
    ----------
    history : History
        A log's jobs in order of submit.
    until_s : float
        End of the training period, s since 1970.
    settings : SearchSettings, optional
        Method and size of the search.
    seed : int
        Seed of the random numbers.
    workers : int
        Threads; the result does not depend on it.
    on_step : callable
        Called with the progress after every step; returns whether to continue.

    Returns
    -------
    Found
        The set of templates, and its mean absolute error on the training period, s.

    References
    ----------
    Smith, Foster & Taylor (1998, 2004).

    Examples
    --------
    >>> from pipeline.estimate.history import history as history_of
    >>> log = history_of(tables["jobs"])
    >>> small = SearchSettings(method="greedy", greedy_pool=5, max_templates=1)
    >>> found = search(log, float(log.end_s[np.isfinite(log.end_s)].max()) + 1, small, seed=1)
    >>> len(found.templates), found.n_jobs > 0
    (1, True)
    """
    settings = settings or SearchSettings()
    errors = Errors(history, until_s)
    rng, genes = np.random.default_rng(seed), genes_of(errors.sight)
    with ThreadPoolExecutor(max(workers, 1)) as pool:

        def ranked(error: Callable[[Sequence[Template]], float], sets: Sequence[Sequence[Template]]) -> Floats:
            return np.array(list(pool.map(error, sets)))

        rows = np.empty((0, len(genes.sizes)), np.int64)
        if settings.method != "genetic":
            rows = _greedy(errors, genes, settings, rng, ranked, on_step)
        if settings.method != "greedy":
            rows = _genetic(errors, genes, settings, rng, ranked, on_step, rows)
    templates = _pruned(errors, _templates(genes, rows))
    return Found(templates, errors.mean_s(templates), len(errors), until_s, settings.method, seed)


def _templates(genes: Genes, rows: Ints) -> tuple[Template, ...]:
    """The rows' templates in one order, whatever that of the rows: the first of equal intervals answers."""
    return tuple(
        sorted({genes.template(row) for row in rows}, key=lambda template: (-len(template.attributes), str(template)))
    )


def _greedy(
    errors: Errors, genes: Genes, settings: SearchSettings, rng: np.random.Generator, ranked: Rank, on_step: OnStep
) -> Ints:
    """Rows added one by one while the error falls: each is the best of the pool, improved by its neighbours."""
    pool, rows = genes.drawn(rng, settings.greedy_pool), np.empty((0, len(genes.sizes)), np.int64)
    least_s = np.inf
    for step in range(settings.max_templates):
        best = errors.narrowest([genes.template(row) for row in rows])

        def adding(one: Sequence[Template], best: tuple[Floats, Floats] = best) -> float:
            return errors.with_one_more_s(best, one[0])

        row, error_s = _climbed(genes, pool, adding, ranked)
        if error_s > least_s * (1 - settings.greedy_gain):
            break
        rows, least_s = np.vstack([rows, row]), error_s
        if not on_step(Moment("greedy", step + 1, settings.max_templates, least_s)):
            break
    return rows


def _climbed(
    genes: Genes, pool: Ints, error: Callable[[Sequence[Template]], float], ranked: Rank
) -> tuple[Ints, float]:
    """Hill climbing: from the best row of the pool to better neighbours, until there is none."""
    row, least_s, rows = pool[0], np.inf, pool
    while True:
        errors_s = ranked(error, [(genes.template(r),) for r in rows])
        place = int(errors_s.argmin())
        if errors_s[place] >= least_s:
            return row, least_s
        row, least_s = rows[place], float(errors_s[place])
        rows = genes.neighbours(row)


def _genetic(
    errors: Errors,
    genes: Genes,
    settings: SearchSettings,
    rng: np.random.Generator,
    ranked: Rank,
    on_step: OnStep,
    first: Ints,
) -> Ints:
    """The best set of all generations, as rows."""
    population = [genes.drawn(rng, int(n)) for n in rng.integers(1, settings.max_templates + 1, settings.population)]
    if len(first):
        population[0] = first
    best, least_s = population[0], np.inf
    for generation in range(settings.generations):
        errors_s = ranked(errors.mean_s, [_templates(genes, rows) for rows in population])
        order = np.argsort(errors_s, kind="stable")
        if errors_s[order[0]] < least_s:
            best, least_s = population[order[0]], float(errors_s[order[0]])
        is_going = on_step(Moment("genetic", generation + 1, settings.generations, least_s))
        if not is_going or generation + 1 == settings.generations:
            break
        elite = [population[place] for place in order[: settings.n_elite]]
        children = _children(population, scaled_fitness(errors_s, settings.fitness_spread), genes, settings, rng)
        population = [*elite, *children][: settings.population]
    return best


def scaled_fitness(errors_s: Floats, spread: float) -> Floats:
    """1 for the worst set, `spread` for the best, in between by their errors."""
    worst, best = errors_s.max(), errors_s.min()
    if worst == best:
        return np.ones(len(errors_s))
    fitness: Floats = 1 + (spread - 1) * (worst - errors_s) / (worst - best)
    return fitness


def _children(
    population: Sequence[Ints], fitness: Floats, genes: Genes, settings: SearchSettings, rng: np.random.Generator
) -> list[Ints]:
    """As many children as parents: pairs drawn by fitness with replacement, crossed, mutated."""
    children: list[Ints] = []
    while len(children) < len(population):
        one, other = rng.choice(len(population), 2, p=fitness / fitness.sum())
        for child in crossed(population[one], population[other], rng):
            children.append(genes.mutated(rng, child[: settings.max_templates], settings.mutation_rate))
    return children


def crossed(one: Ints, other: Ints, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """Two children: each set up to a template of its own, cut within that template, and on with the other's rest."""
    a, b, cut = rng.integers(len(one)), rng.integers(len(other)), rng.integers(one.shape[1] + 1)
    joined = np.concatenate([one[a, :cut], other[b, cut:]]), np.concatenate([other[b, :cut], one[a, cut:]])
    return np.vstack([one[:a], joined[0], other[b + 1 :]]), np.vstack([other[:b], joined[1], one[a + 1 :]])


def _pruned(errors: Errors, templates: tuple[Template, ...]) -> tuple[Template, ...]:
    """The set without templates whose absence does not raise the error, the last ones first."""
    least_s = errors.mean_s(templates)
    for template in reversed(templates):
        others = tuple(other for other in templates if other != template)
        if others and errors.mean_s(others) <= least_s:
            templates, least_s = others, errors.mean_s(others)
    return templates
