"""Gradient-boosted quantiles (LightGBM) of runtime over request, refitted as jobs end, over a window of the latest."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Iterator
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pipeline.arrays import Floats, Ints
from pipeline.estimate.submits import Events, Jobs, capped
from pipeline.workers import together

if TYPE_CHECKING:
    from pipeline.estimate.estimate_rules import EstimateRules


FLOAT64, ROW_MAJOR, NORMAL, ALL_TREES = 1, 1, 0, -1
"""Constants of LightGBM's C interface."""


class Model:
    """A model in the library's memory, which is given back with the object."""

    def __init__(self, text: str) -> None:
        self._handle = ctypes.c_void_p()
        n_trees = ctypes.c_int()
        _call("LGBM_BoosterLoadModelFromString", text.encode(), ctypes.byref(n_trees), ctypes.byref(self._handle))
        weakref.finalize(self, _library().LGBM_BoosterFree, self._handle)

    def predict(self, inputs: Floats) -> Floats:
        """One number a row of (rows, columns) inputs; NaN is a value like others."""
        rows = np.ascontiguousarray(inputs, np.float64)
        found, n_found = np.empty(len(rows)), ctypes.c_int64()
        _call(
            "LGBM_BoosterPredictForMat", self._handle, rows.ctypes.data_as(ctypes.c_void_p), FLOAT64, *rows.shape,
            ROW_MAJOR, NORMAL, 0, ALL_TREES, b"num_threads=1", ctypes.byref(n_found),
            found.ctypes.data_as(ctypes.c_void_p),
        )  # fmt: skip
        return found


def _call(name: str, *arguments: Any) -> None:
    library = _library()
    if getattr(library, name)(*(ctypes.c_int(one) if isinstance(one, int) else one for one in arguments)):
        raise RuntimeError(f"LightGBM: {library.LGBM_GetLastError().decode(errors='replace')}")


@cache
def _library() -> Any:
    spec = find_spec("lightgbm")
    folders = spec.submodule_search_locations if spec else None
    found = [str(path) for folder in folders or () for path in sorted(Path(folder).glob("lib/lib_lightgbm.*"))]
    if not found:
        # A build of its own may keep the library elsewhere, and its package knows where.
        from lightgbm.libpath import _find_lib_path  # noqa: PLC0415

        found = _find_lib_path()
    library = ctypes.CDLL(found[0])
    library.LGBM_GetLastError.restype = ctypes.c_char_p
    return library


FIRST_FIT_JOBS = 500
BINS = 63
LEAF_JOBS = 30
SAMPLE = 0.7
LEARNING_RATE = 0.12
LONGEST_SHARE = 1.2
"""Ratios of runtime to request above this come from clock errors and grace times; they are cut to it."""

LEAST_S = 60.0
"""The unit of a job without a request is twice the typical runtime of similar jobs, and at least this."""


class Forest(NamedTuple):
    """The models in use, one a share, as LightGBM's text (none before the first fit), and the jobs they wait for.

    `longest_s`: the largest unit among the jobs that the models were fitted to; `n_ended`: jobs that have ended;
    `n_fitted`: how many had when the models were fitted; `window`: places of the latest ended jobs, in order of end.
    """

    models: tuple[str, ...]
    longest_s: float
    n_ended: int
    n_fitted: int
    window: Ints


def no_forest() -> Forest:
    """Nothing fitted yet."""
    return Forest((), np.inf, 0, 0, np.empty(0, np.int64))


def unit_s(jobs: Jobs, typical_s: Floats) -> Floats:
    """The divisor of each job's runtime, s: the request, else twice the typical runtime."""
    return np.where(jobs.requested_s > 0, jobs.requested_s, np.maximum(2 * np.nan_to_num(typical_s), LEAST_S))


def boosted_at(
    jobs: Jobs, past: Jobs, events: Events, forest: Forest, seen: Floats, past_seen: Floats, units: Floats,
    past_units: Floats, shares: tuple[float, ...], settings: EstimateRules,
) -> tuple[Floats, Forest]:  # fmt: skip
    """(jobs, shares) quantiles, s, at most the request, NaN before the first fit; the forest after all ends.

    Models are fitted when the 500th, 1,000th, 2,000th, 4,000th job has ended, and then every `refit_jobs`, to the
    `window_jobs` that had ended last. A unit beyond theirs counts as the largest of theirs: what share of it jobs take,
    nothing says. `seen` and `past_seen`: what the trees see of each job; units: see unit_s.
    """
    is_learnt = past.is_learnt[events.by_end]
    order = np.concatenate([forest.window, events.by_end[is_learnt]])
    n_ended = forest.n_ended + np.append(0, np.cumsum(is_learnt))[events.ended]
    begins = len(forest.window) - forest.n_ended
    found, models, fitted = np.full((len(seen), len(shares)), np.nan), forest.models, forest.n_fitted
    longest_s, counted_s = forest.longest_s, np.minimum(units, forest.longest_s)
    counts = list(_refits(fitted, int(n_ended[-1]), settings.refit_jobs))
    windows = [order[max(0, begins + count - settings.window_jobs) : begins + count] for count in counts]
    # In order of submit, so that jobs that end in the same second make the same trees in any order.
    refits = together([partial(_refit, past, past_seen, past_units, np.sort(own), shares, settings) for own in windows])
    for until, (own, own_longest_s), count in zip(
        [*counts, np.inf], [(models, longest_s), *refits], [-np.inf, *counts], strict=True
    ):
        # Each job is answered by the models in use at its submit.
        is_own = (n_ended[:-1] >= count) & (n_ended[:-1] < until)
        _predict(found, own, is_own, seen)
        counted_s[is_own] = np.minimum(units[is_own], own_longest_s)
        models, longest_s, fitted = own, own_longest_s, fitted if count == -np.inf else int(count)
    found = capped(np.maximum(found * counted_s[:, None], 1.0), jobs.requested_s)
    return found, Forest(models, longest_s, int(n_ended[-1]), fitted, order[-settings.window_jobs :])


def _refit(
    past: Jobs, past_seen: Floats, past_units: Floats, known: Ints, shares: tuple[float, ...],
    settings: EstimateRules,
) -> tuple[tuple[str, ...], float]:  # fmt: skip
    """The models of the jobs at these places, one a share, and the largest unit among the jobs."""
    target, units = _target(past, past_units, known), past_units[known]
    models = tuple(_fitted(past_seen[known], target, units, share, settings) for share in shares)
    return models, float(units.max())


def _target(past: Jobs, units: Floats, places: Ints) -> Floats:
    share = np.minimum(past.runtime_s[places] / units[places], LONGEST_SHARE)
    return np.where(past.is_lower_bound[places], LONGEST_SHARE, share)


def _refits(fitted: int, n_ended: int, every: int) -> Iterator[int]:
    """The counts of ended jobs at which models are due: 500, twice as many, ..., then every so many."""
    count = FIRST_FIT_JOBS
    while count <= n_ended:
        if count > fitted:
            yield count
        count = min(2 * count, count + every)


def _predict(found: Floats, models: tuple[str, ...], chosen: Any, seen: Floats) -> None:
    if models and chosen.any():
        found[chosen] = np.column_stack([loaded(model).predict(seen[chosen]) for model in models])


_LOADED: dict[str, Model] = {}
"""Models that were parsed already: parsing a model's text takes longer than a prediction."""


def loaded(model: str) -> Model:
    """A model that predicts, from LightGBM's text."""
    if model not in _LOADED:
        if len(_LOADED) >= 16:
            _LOADED.clear()
        _LOADED[model] = Model(model)
    return _LOADED[model]


def _fitted(inputs: Floats, target: Floats, weight: Floats, share: float, settings: EstimateRules) -> str:
    import lightgbm  # noqa: PLC0415  (half a second, which who only asks need not wait for)

    parameters = {
        "objective": "quantile", "alpha": share, "num_leaves": settings.leaves, "learning_rate": LEARNING_RATE,
        "min_data_in_leaf": LEAF_JOBS, "max_bin": BINS, "feature_fraction": SAMPLE, "bagging_fraction": SAMPLE,
        "bagging_freq": 1, "seed": settings.seed, "num_threads": 1, "deterministic": True, "force_row_wise": True,
        "verbose": -1,
    }  # fmt: skip
    data = lightgbm.Dataset(inputs, target, weight=weight / weight.mean(), params=parameters)
    text: str = lightgbm.train(parameters, data, settings.trees).model_to_string()
    return text
