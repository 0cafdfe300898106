"""What scikit-learn expects of an estimator: parameters by name, clones, X and y apart, weights, levels, a score."""

import inspect
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import pyarrow as pa
from scipy.special import ndtri

from pipeline.arrays import Floats
from pipeline.errors import InputError, did_you_mean, printable
from walltime.frames import FrameKind, arrow_of, with_column

MEDIAN = 0.5


class Estimator:
    """Parameters are attributes of the same names, set by the constructor alone; what is learnt ends in `_`."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The constructor's arguments by name; `deep` has no effect, because none of them is an estimator."""
        del deep
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def set_params(self, **params: Any) -> Self:
        """Set some of the constructor's arguments; returns the estimator itself, which has to be fitted again."""
        known = list(self.get_params())
        for name, value in params.items():
            if name not in known:
                found = f"the parameter {printable(name)}"
                raise InputError(type(self).__name__, found, f"one of {', '.join(known)}", did_you_mean(name, known))
            setattr(self, name, value)
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return any(name.endswith("_") and not name.startswith("_") for name in vars(self))

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, RegressorTags, Tags, TargetTags  # noqa: PLC0415  (only scikit-learn asks)

        return Tags(
            estimator_type="regressor", target_tags=TargetTags(required=False), regressor_tags=RegressorTags(),
            input_tags=InputTags(positive_only=True),
        )  # fmt: skip

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self)).parameters
        changed = {name: one for name, one in self.get_params().items() if one != defaults[name].default}
        return f"{type(self).__name__}({', '.join(f'{name}={one!r}' for name, one in changed.items())})"

    def checked_fitted(self) -> None:
        """InputError where `fit` was not called."""
        if not self.__sklearn_is_fitted__():
            raise InputError(type(self).__name__, "an estimator that is not fitted", "a call of fit before")


def with_target(frame: Any, y: Any, column: str, what: str) -> tuple[pa.Table, FrameKind]:
    """A frame as a table, with `y`, where it is given, as this column; an array of one column is processor counts."""
    if isinstance(frame, np.ndarray | list | tuple):
        counts = np.asarray(frame)
        if counts.ndim != 2 or counts.shape[1] != 1:
            raise InputError(
                what, f"an array of shape {counts.shape}", "one column of processor counts, or a data frame"
            )
        table, kind = pa.table({"procs": counts[:, 0]}), FrameKind.ARRAY
    else:
        table, kind = arrow_of(frame, what)
    return (table if y is None else with_values(table, column, per_row(y, table.num_rows, what, "y"))), kind


def per_row(values: Any, n: int, what: str, name: str) -> Floats:
    """One number a row; InputError for another number of them."""
    found = np.asarray(values, np.float64).ravel()
    if len(found) != n:
        raise InputError(what, f"{len(found)} values of {name} for {n} rows", "one value a row")
    return found


def with_values(table: pa.Table, name: str, values: Floats) -> pa.Table:
    """The table with a column of numbers; NaN becomes null."""
    array = pa.array(values, mask=np.isnan(values))
    return with_column(table, pa.field(name, array.type), array)


def wanted_quantiles(levels: Sequence[float], quantiles: Sequence[float], within: Sequence[float]) -> dict[str, float]:
    """Quantiles by column: `quantiles` themselves, and those of the central intervals of `levels` (per cent).

    InputError for one outside the quantiles `within`, between which others are interpolated.
    """
    columns = {f"runtime_s_q{100 * share:g}": float(share) for share in np.atleast_1d(quantiles)}
    for level in levels:
        columns |= {f"runtime_s_lo{level:g}": (100 - level) / 200, f"runtime_s_hi{level:g}": (100 + level) / 200}
    if small := [level for level in levels if 0 < level <= 1]:
        raise InputError("predict", f"levels with {small[0]:g}", "per cent, as in levels=[80]")
    wrong = [share for share in columns.values() if not min(within) <= share <= max(within)]
    if wrong:
        expected = f"levels up to 95 and quantiles from {min(within):g} to {max(within):g}"
        raise InputError("predict", f"a quantile of {wrong[0]:g}", expected)
    return columns


def interpolated(shares: Sequence[float], quantiles_s: Floats, wanted: float) -> Floats:
    """(rows,) one quantile between those at `shares`, (rows, shares), s: log runtimes are normal between two."""
    above = int(np.clip(np.searchsorted(shares, wanted), 1, len(shares) - 1))
    low, high = ndtri(shares[above - 1]), ndtri(shares[above])
    part = (ndtri(wanted) - low) / (high - low)
    if part in (0.0, 1.0):
        return quantiles_s[:, above - 1 + int(part)]
    found: Floats = quantiles_s[:, above - 1] ** (1 - part) * quantiles_s[:, above] ** part
    return found


def r_squared(predicted_s: Floats, actual_s: Floats, sample_weight: Any = None) -> float:
    """The coefficient of determination of log runtimes where both are known; 1 is best."""
    known = (actual_s > 0) & np.isfinite(predicted_s)
    n = len(actual_s)
    weight = (np.ones(n) if sample_weight is None else per_row(sample_weight, n, "score", "sample_weight"))[known]
    logs = np.log(actual_s[known])
    off, mean = np.log(np.maximum(predicted_s[known], 1e-9)) - logs, np.average(logs, weights=weight)
    return float(1 - np.average(off**2, weights=weight) / np.average((logs - mean) ** 2, weights=weight))
