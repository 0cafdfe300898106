"""Runs that could be made next: from a CSV file, or combinations of the values that runs had."""

from math import prod
from pathlib import Path

import numpy as np
import pyarrow as pa

from flows.services.inputs.model_folder import read_learnt_runs
from flows.services.inputs.processor_formula import with_processors
from flows.services.inputs.runs_csv import read_runs
from pipeline.inputs import InputModel
from pipeline.inputs.suggestions import MOST_CANDIDATES


def candidates_for(model: InputModel, folder: Path, path: Path | None) -> pa.Table:
    """The rows of a file, or combinations of values of the inputs that no run had."""
    found = read_runs(path) if path else new_combinations(model, read_learnt_runs(folder))
    return with_processors(found, model.declaration)


def new_combinations(model: InputModel, runs: pa.Table) -> pa.Table:
    """Combinations of the inputs' values in the runs, without those that ran; at most 2,000, drawn by seed."""
    names = [one.name for one in model.declaration.inputs]
    levels = {name: sorted(value for value in runs.column(name).unique().to_pylist() if value is not None)
              for name in names}  # fmt: skip
    ran = set(zip(*(runs.column(name).to_pylist() for name in names), strict=True))
    places = _places([len(values) for values in levels.values()], MOST_CANDIDATES + len(ran), model.settings.seed)
    rows = [tuple(levels[name][place] for name, place in zip(names, row, strict=True)) for row in places]
    new = [row for row in rows if row not in ran]
    if len(new) > MOST_CANDIDATES:
        chosen = np.random.default_rng([model.settings.seed, 7]).choice(len(new), MOST_CANDIDATES, replace=False)
        new = [new[place] for place in np.sort(chosen)]
    types = runs.select(names).schema
    return pa.table([pa.array([row[i] for row in new], types.field(name).type) for i, name in enumerate(names)], names)


def _places(sizes: list[int], most: int, seed: int) -> list[tuple[int, ...]]:
    """Places in each list of values: all combinations where there are at most `most`, else distinct ones, drawn."""
    n_all = prod(sizes)
    if n_all <= most:
        return [tuple(int(place) for place in row) for row in np.ndindex(*sizes)]
    rng = np.random.default_rng([seed, 8])
    drawn = np.stack([rng.integers(size, size=most) for size in sizes], axis=1)
    return [tuple(int(place) for place in row) for row in np.unique(drawn, axis=0)]
