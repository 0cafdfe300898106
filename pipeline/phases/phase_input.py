"""What a kind of input has to give, so that the same commands find phases in it and predict from them.

Also the constants by which phases are found, timed and expanded; each that departs from its paper says why.
"""

import gzip
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

import pyarrow as pa

from pipeline.arrays import Floats
from pipeline.report import Report


@dataclass(frozen=True, slots=True)
class Pas2pRules:
    """PAS2P (Wong, Rexachs and Luque 2014), with what the paper leaves open. Shares are from 0 to 1."""

    similar_share: float = 0.8
    """Least share of events alike in two similar phases."""
    max_level: int = 2
    """How often phases may be joined to longer ones that repeat."""
    most_phases: int = 25
    """Phases are joined while there are more than this: the most in the paper's Table 8."""
    relevant_share: float = 0.01
    """Least share of the time of a relevant phase (Section 3.3, step 6)."""
    least_coverage: float = 0.95
    """Share of the time that relevant phases cover; smaller ones are added. 0: off."""


@dataclass(frozen=True, slots=True)
class ProbeRules:
    """The clustering of basic-block vectors, with the published defaults of SimPoint 3.2."""

    dimensions: int = 15
    """Dimensions of the random projection."""
    max_phases: int = 15
    """Largest number of phases that is tried."""
    restarts: int = 5
    """Runs of k-means from other first centres, for each number."""
    max_steps: int = 100
    """Largest number of steps of one run of k-means."""
    bic_share: float = 0.9
    """The least number of phases is taken whose BIC is this share of the way from worst to best."""
    seed: int = 0
    """Seed of the projection and of the first centres."""


@dataclass(frozen=True, slots=True)
class PlanRules:
    """Which occurrences are timed, and when timing them does not pay."""

    budget: float = 0.05
    """Share of the run's time to spend, warm-up included."""
    least_samples: int = 3
    """Least number of occurrences timed per phase; fewer tell nothing about their spread."""
    warmup: int = 1
    """Occurrences before each timed one that only warm up caches."""
    start: float = 0.5
    """Where each timed occurrence lies in its equal part of the run, from 0 to below 1."""
    repetition_samples: int = 10
    """Occurrences of each phase whose timing has to save time in a repetitive run."""
    most_share: float = 0.9
    """A run is not repetitive if timing these takes more than this share of its events."""

    @property
    def repetitions(self) -> int:
        """Occurrences of a phase that timing takes, warm-up included: a phase that saves time occurs more often."""
        return self.repetition_samples * (1 + self.warmup)


@dataclass(frozen=True, slots=True)
class ExpansionRules:
    """How the times of some occurrences become the runtime."""

    form: Literal["regression", "ratio", "count"] = "regression"
    """count: occurrences by their mean time; ratio: the reference time by the ratio of timed to reference;
    regression: between the two, by the slope of the times on those of the reference."""
    even_width: float = 0.7
    """An evenly spaced sample answers where its 80% interval is narrower than this share of that of the phases."""


@dataclass(frozen=True, slots=True)
class PhaseRules:
    """All constants of the room that tests and research vary."""

    pas2p: Pas2pRules = Pas2pRules()
    probes: ProbeRules = ProbeRules()
    plan: PlanRules = PlanRules()
    expansion: ExpansionRules = ExpansionRules()


@dataclass(frozen=True, slots=True)
class Extracted:
    """The phases of a run: PHASES, PHASE_POINTS, the processors of the run, and what was found in words.

    `calls` are the MPI_CALLS of a trace, which `times_of` needs.
    """

    phases: pa.Table
    points: pa.Table
    procs: int
    reports: tuple[Report, ...]
    calls: pa.Table | None = None


@dataclass(frozen=True, slots=True)
class PhaseInput:
    """A kind of input: how to know a path, to find phases in it, and to time them in a second run.

    `extract` takes a path, the run's name, the rules, and the path of measured times or None. `times_of` takes
    PHASE_POINTS, the calls of the reference run, and the path of the second run. It gives the time (s) of every
    occurrence there in the order of the run, NaN where that run did not get there, and its runtime (s), None where it
    did not get to its end.
    """

    name: Literal["mpi", "bbv"]
    expects: str
    looks_right: Callable[[Path], bool]
    extract: Callable[[Path, str, PhaseRules, Path | None], Extracted]
    times_of: Callable[[pa.Table, pa.Table | None, Path], tuple[Floats, float | None]]


UNREADABLE = (OSError, EOFError, zlib.error)
"""What reading a file raises that is missing, cut off or damaged."""


def header_of(path: Path) -> list[str]:
    """The names in the first line of a CSV; none where it cannot be read."""
    try:
        with open_plain(path) as source:
            line = source.readline(4096).decode("utf-8-sig", "replace")
    except UNREADABLE:
        return []
    return [name.strip() for name in line.split(",")]


def open_plain(path: Path) -> BinaryIO:
    """The file's plain bytes; gzip is known by content and unpacked."""
    raw = path.open("rb")
    is_packed = raw.read(2) == b"\x1f\x8b"
    raw.seek(0)
    return gzip.GzipFile(fileobj=raw) if is_packed else raw  # type: ignore[return-value]
