"""What a kind of input has to give, so that the same commands find phases in it and predict from them."""

import gzip
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Literal

import pyarrow as pa

from pipeline.arrays import Floats
from pipeline.phases.phase_rules import PhaseRules
from pipeline.report import Report

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

    times_s: Floats
    runtime_s: float | None


@dataclass(frozen=True, slots=True)
class PhaseInput:
    """A kind of input: how to know a path, to find phases in it, and to time them in a second run.

    `extract` takes a path, the run's name, the rules, and the path of measured times or None. `times_of` takes
    PHASE_POINTS, the kept tables of the reference run, and the path of the second run. `expansion` is the form of the
    prediction, see ExpansionRules.
    """

    name: str
    expects: str
    looks_right: Callable[[Path], bool]
    extract: Callable[[Path, str, PhaseRules, Path | None], Extracted]
    times_of: Callable[[pa.Table, Tables, Path], TargetTimes]
    expansion: Literal["regression", "ratio", "count"] = "regression"


def open_plain(path: Path) -> BinaryIO:
    """The file's plain bytes; gzip is known by content and unpacked."""
    raw = path.open("rb")
    is_packed = raw.read(2) == b"\x1f\x8b"
    raw.seek(0)
    return gzip.GzipFile(fileobj=raw) if is_packed else raw  # type: ignore[return-value]
