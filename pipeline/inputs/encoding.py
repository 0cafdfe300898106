"""Turns inputs into standardised numbers: logarithms of log_numbers, one column for each value of a category."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

import numpy as np

from pipeline.core.arrays import Array, Bools, Floats
from pipeline.inputs.declaration import Declaration, InputType

LOG = str(InputType.LOG_NUMBER)
MOST_COLUMNS = 50
"""Values of a category with a column of their own, the most frequent ones; the others share what is left."""


@dataclass(frozen=True, slots=True)
class Feature:
    """One encoded column: the input it comes from, and how its value is shifted and scaled.

    `level` is the value of a category that has 1 here. `low` and `high` bound the runs' values, in encoded units.
    """

    name: str
    type: str
    level: str | None
    mean: float
    scale: float
    low: float
    high: float
    shift: float = 0.0
    """What is added before the logarithm: the smallest positive value of a log_number that can be zero."""

    def bound(self, side: str) -> float:
        """The least ("low") or largest ("high") value of the runs in the input's own unit."""
        value = (self.low if side == "low" else self.high) * self.scale + self.mean
        return float(np.exp(value)) - self.shift if self.type == LOG else value


@dataclass(frozen=True, slots=True)
class Encoding:
    """How inputs become columns. Inputs with one value in all runs have no column; `constant` holds them."""

    features: tuple[Feature, ...]
    levels: Mapping[str, tuple[str, ...]]
    constant: Mapping[str, float | str]
    types: Mapping[str, str]

    def encode(self, raw: Mapping[str, Array]) -> Floats:
        """(rows, features) standardised numbers; NaN where an input is unknown or has no logarithm.

        A new value of a category has 0 in all of the category's columns, before they are standardised.
        """
        n_rows = len(next(iter(raw.values())))
        columns = [(self._values(raw, one) - one.mean) / one.scale for one in self.features]
        return np.stack(columns, axis=1) if columns else np.zeros((n_rows, 0))

    def _values(self, raw: Mapping[str, Array], one: Feature) -> Floats:
        values = raw[one.name]
        if one.level is not None:
            return np.where(values == None, np.nan, values == one.level).astype(np.float64)  # noqa: E711
        return _logged(values + one.shift) if one.type == LOG else values

    def decode(self, x: Floats) -> Floats:
        """(rows, features) values in the inputs' own units, the inverse of `encode`."""
        values = x * [one.scale for one in self.features] + [one.mean for one in self.features]
        is_log = np.array([one.type == LOG for one in self.features], bool)
        with np.errstate(over="ignore"):
            values[:, is_log] = np.exp(values[:, is_log]) - [one.shift for one in self.features if one.type == LOG]
        found: Floats = values
        return found

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Self:
        """The inverse of `as_dict`."""
        features = tuple(Feature(**one) for one in plain["features"])
        levels = {name: tuple(values) for name, values in plain["levels"].items()}
        return cls(features, levels, dict(plain["constant"]), dict(plain["types"]))


def input_types(raw: Mapping[str, Array], declaration: Declaration) -> dict[str, str]:
    """The type of each input; a derived one is a log_number where no value is negative."""
    types = {one.name: str(one.type) for one in declaration.inputs}
    for one in declaration.derived:
        known = raw[one.name][np.isfinite(raw[one.name])]
        is_log = len(known) > 0 and known.min() >= 0
        types[one.name] = str(InputType.LOG_NUMBER if is_log else InputType.NUMBER)
    return types


def is_complete(raw: Mapping[str, Array], types: Mapping[str, str]) -> Bools:
    """Rows in which every input is known, finite, and not negative where its logarithm is taken."""
    checks = [_is_usable(values, types[name]) for name, values in raw.items()]
    found: Bools = np.logical_and.reduce(checks)
    return found


def _is_usable(values: Array, kind: str) -> Bools:
    if kind == InputType.CATEGORY:
        return np.array([value is not None for value in values], bool)
    usable: Bools = np.isfinite(values) & ((values >= 0) if kind == LOG else True)
    return usable


def encoding_of(raw: Mapping[str, Array], types: Mapping[str, str]) -> Encoding:
    """The encoding of complete rows."""
    features: list[Feature] = []
    levels: dict[str, tuple[str, ...]] = {}
    constant: dict[str, float | str] = {}
    for name, values in raw.items():
        if types[name] == InputType.CATEGORY:
            levels[name] = tuple(sorted(set(values)))
            features += _level_features(name, values, levels[name])
            continue
        shift = _shift(values) if types[name] == LOG else 0.0
        numbers = _logged(values + shift) if types[name] == LOG else values
        if values.max() > values.min():
            features.append(replace(_feature(name, types[name], None, numbers), shift=shift))
        else:
            constant[name] = float(values[0])
    return Encoding(tuple(features), levels, constant, dict(types))


def _level_features(name: str, values: Array, levels: tuple[str, ...]) -> list[Feature]:
    if len(levels) == 1:
        return []
    counts = Counter(values)
    often = sorted(levels, key=lambda level: (-counts[level], level))[:MOST_COLUMNS]
    kind = str(InputType.CATEGORY)
    return [_feature(name, kind, level, (values == level).astype(np.float64)) for level in sorted(often)]


def _feature(name: str, kind: str, level: str | None, values: Floats) -> Feature:
    mean, scale = float(values.mean()), float(values.std())
    low, high = (float(values.min()) - mean) / scale, (float(values.max()) - mean) / scale
    return Feature(name, kind, level, mean, scale, low, high)


def _shift(values: Floats) -> float:
    """0 where all values are positive, else the smallest positive one: a count of nothing is one step below it."""
    return float(values[values > 0].min()) if values.min() <= 0 < values.max() else 0.0


def _logged(values: Floats) -> Floats:
    with np.errstate(invalid="ignore", divide="ignore"):
        found: Floats = np.where(values > 0, np.log(values), np.nan)
    return found
