"""What a kind of input has to give, so that the same commands find phases in it and predict from them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.core.phase_settings import PhaseSettings
from pipeline.core.report import Report

Tables = Mapping[str, pa.Table]


@dataclass(frozen=True, slots=True)
class Extracted:
    """The phases of a run: PHASES, PHASE_POINTS, the processors of the run, and what was found in words.

    `kept` are more tables to keep for `times_of`, by the name of their kind.
    """

    phases: pa.Table
    points: pa.Table
    procs: int
    reports: tuple[Report, ...]
    kept: Tables = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TargetTimes:
    """A run on another platform: the time (s) of every occurrence in the order of the run, NaN where it did not get
    there, and its runtime, None where it did not get to its end."""

    times_s: npt.NDArray[np.float64]
    runtime_s: float | None


@dataclass(frozen=True, slots=True)
class PhaseInput:
    """A kind of input: how to know a path, to find phases in it, and to time them in a second run.

    `extract` takes a path, the run's name, the settings, and the path of measured times or None. `times_of` takes
    PHASE_POINTS, the kept tables of the reference run, and the path of the second run. `expansion` is the form of the
    prediction, see ExpansionSettings.
    """

    name: str
    expects: str
    looks_right: Callable[[Path], bool]
    extract: Callable[[Path, str, PhaseSettings, Path | None], Extracted]
    times_of: Callable[[pa.Table, Tables, Path], TargetTimes]
    expansion: Literal["regression", "ratio", "count"] = "regression"
