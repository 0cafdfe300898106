"""What scikit-learn expects of an estimator: parameters by name, clones, X and y apart, weights, levels, a score."""

import inspect
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import pyarrow as pa
from scipy.special import ndtri

from flows.services.quantities import chosen_names
from pipeline.arrays import Floats, floats
from pipeline.errors import InputError
from pipeline.tables import JOBS
from walltime.frames import arrow_of, converted, require, with_column

MEDIAN = 0.5
ARRAY = "array"
"""The kind of a frame that is an array of one column of processor counts, without a name."""


class Estimator:
    """Parameters are attributes of the same names, set by the constructor alone; what is learnt ends in `_`."""

    _shares: tuple[float, ...]
    """Quantiles that are calibrated, in order; others are interpolated."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The constructor's arguments by name; `deep` has no effect, because none of them is an estimator."""
        del deep
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def set_params(self, **params: Any) -> Self:
        """Set some of the constructor's arguments; returns the estimator itself, which has to be fitted again."""
        chosen_names(list(params), list(self.get_params()), "parameter")
        for name, value in params.items():
            setattr(self, name, value)
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return any(name.endswith("_") and not name.startswith("_") for name in vars(self))

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, RegressorTags, Tags, TargetTags  # noqa: PLC0415  (only scikit-learn asks)

        inputs, target = InputTags(positive_only=True), TargetTags(required=False)
        return Tags(estimator_type="regressor", target_tags=target, regressor_tags=RegressorTags(), input_tags=inputs)

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self)).parameters
        changed = {name: one for name, one in self.get_params().items() if one != defaults[name].default}
        return f"{type(self).__name__}({', '.join(f'{name}={one!r}' for name, one in changed.items())})"

    def _quantiles_of(self, table: pa.Table) -> Floats:
        """(rows, shares) quantiles of the runtime at `shares`, s; NaN: none."""
        raise NotImplementedError

    def score(self, frame: Any, y: Any = None, sample_weight: Any = None) -> float:
        """The coefficient of determination (R squared) of log runtimes where they are known, in s; 1 is best."""
        table, _ = with_target(frame, y, "score")
        require(table, ["runtime_s"], "score")
        actual_s = floats(pa.table(converted(table, JOBS, ["runtime_s"], "score")), "runtime_s")
        predicted_s = self._quantiles_of(table)[:, self._shares.index(MEDIAN)]
        known = (actual_s > 0) & np.isfinite(predicted_s)
        given = np.ones(len(known)) if sample_weight is None else sample_weight
        weight = per_row(given, len(known), "score", "sample_weight")[known]
        logs, predicted = np.log(actual_s[known]), np.log(np.maximum(predicted_s[known], 1e-9))
        mean = np.average(logs, weights=weight)
        errors, spread = (np.average(off**2, weights=weight) for off in (predicted - logs, logs - mean))
        return float(1 - errors / spread)

    def checked_fitted(self) -> None:
        """InputError where `fit` was not called."""
        if not self.__sklearn_is_fitted__():
            raise InputError(type(self).__name__, "an estimator that is not fitted", "a call of fit before")


def with_target(frame: Any, y: Any, what: str) -> tuple[pa.Table, str]:
    """A frame as a table and its kind, with `y`, where it is given, as its column `runtime_s`."""
    if isinstance(frame, np.ndarray | list | tuple):
        counts = np.asarray(frame)
        if counts.ndim != 2 or counts.shape[1] != 1:
            expected = "one column of processor counts, or a data frame"
            raise InputError(what, f"an array of shape {counts.shape}", expected)
        table, kind = pa.table({"procs": counts[:, 0]}), ARRAY
    else:
        table, kind = arrow_of(frame, what)
    if y is not None:
        table = with_column(table, "runtime_s", per_row(y, table.num_rows, what, "y"))
    return table, kind


def per_row(values: Any, n: int, what: str, name: str) -> Floats:
    """One number a row; InputError for another number of them."""
    found = np.asarray(values, np.float64).ravel()
    if len(found) != n:
        raise InputError(what, f"{len(found)} values of {name} for {n} rows", "one value a row")
    return found


def with_quantiles(
    table: pa.Table, levels: Sequence[float], quantiles: Sequence[float], shares: Sequence[float], quantiles_s: Floats
) -> pa.Table:
    """The table with a column for each of `quantiles`, and both ends of each central interval of `levels` (per cent).

    `quantiles_s` (rows, shares) holds those at `shares`, s; between two of them log runtimes are normal. InputError for
    a quantile that is not between these.
    """
    wanted = {f"runtime_s_q{100 * share:g}": float(share) for share in np.atleast_1d(quantiles)}
    most = 100 - 200 * shares[0]
    for level in levels:
        if not 1 < level <= most:
            expected = f"per cent, above 1 and up to {most:g}, as in levels=[80]"
            raise InputError("predict", f"levels with {level:g}", expected)
        wanted |= {f"runtime_s_lo{level:g}": (100 - level) / 200, f"runtime_s_hi{level:g}": (100 + level) / 200}
    for name, share in wanted.items():
        if not shares[0] <= share <= shares[-1]:
            raise InputError("predict", f"a quantile of {share:g}", f"one from {shares[0]:g} to {shares[-1]:g}")
        above = int(np.clip(np.searchsorted(shares, share), 1, len(shares) - 1))
        low, high = ndtri(shares[above - 1]), ndtri(shares[above])
        part = (ndtri(share) - low) / (high - low)
        # A number to the power of 0 is 1, so that the known quantiles come out as they are.
        table = with_column(table, name, quantiles_s[:, above - 1] ** (1 - part) * quantiles_s[:, above] ** part)
    return table
