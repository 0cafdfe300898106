"""Finds the phases of a serial run in its basic-block vectors (Probes), and times them by the times of its intervals.

A phase is a cluster of intervals that execute the same blocks, as SimPoint 3.2 finds them. Sources: Hamerly, Perelman,
Lau, Calder, SimPoint 3.0 (2005), for the procedure; Arthur and Vassilvitskii, k-means++ (2007), for the first centres;
Pelleg and Moore, X-means (2000), for the BIC; Strube (2011) for the removal of phases.

valgrind's exp-bbv and the tools of Pin write SimPoint frequency vectors, plain or gzip: one line an interval,
`T:block:count   :block:count ...`. Lines that start with `#` are comments, and empty lines are skipped. Block numbers
need not be dense. A block that a line repeats counts with the sum of its counts.
"""

import math
import re
import warnings
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from gzip import BadGzipFile
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from scipy.cluster.vq import kmeans2, vq
from scipy.sparse import csr_array

from pipeline.arrays import Floats, Ints, row_codes
from pipeline.errors import InputError, printable
from pipeline.phases.occurrences import phases_table, points_table
from pipeline.phases.phase_input import Extracted, PhaseInput, PhaseRules, ProbeRules, open_plain
from pipeline.phases.platforms import csv_rows, seconds_of
from pipeline.report import Fact, Report, Tally

EXPECTED = "intervals of the form T:block:count :block:count ..."
MAX_LINE_BYTES = 1 << 26
"""Bound of one line, 64 MiB (about five million blocks): a damaged file must not fill the memory."""

_INTERVAL = re.compile(rb"T[ \t]*(?::\d{1,10}:\d{1,15}[ \t]*)+")
"""Ten digits number any block of a program, and fifteen digits are exact in a 64-bit float."""

STEPS_A_CALL = 5
"""Steps of k-means between two looks whether the centres still move: scipy's function knows no such test."""

N_PHASES = (1, 2, 3, 5, 8)
"""Numbers of phases of the removal curve."""


@dataclass(frozen=True, slots=True)
class FrequencyVectors:
    """The intervals of a run in compressed rows, 12 bytes an entry.

    Interval i has entries `first_entry[i]` to `first_entry[i + 1]` of `block` (positions in `block_ids`) and `count`.
    """

    label: str
    first_entry: Ints
    block: npt.NDArray[np.int32]
    count: Floats
    block_ids: Ints
    n_comments: int

    @property
    def n_intervals(self) -> int:
        """Number of intervals."""
        return len(self.first_entry) - 1

    @property
    def totals(self) -> Floats:
        """Sum of the counts of each interval."""
        return np.add.reduceat(self.count, self.first_entry[:-1])

    @property
    def last_is_shorter(self) -> bool:
        """Whether the last interval is shorter than every other: its time then says nothing about theirs."""
        return self.n_intervals > 1 and bool(self.totals[-1] < self.totals[:-1].min())


@dataclass(frozen=True, slots=True)
class ProbePhases:
    """The phases of a run, numbered from 0 in order of their first interval.

    `labels` is the phase of each interval. `representatives` is the interval nearest to the centre of each phase, or
    -1 where the phase has only the last, shorter interval. `weights` are shares of intervals, and `bic_by_k` is the
    BIC of 1, 2, ... phases.
    """

    labels: Ints
    representatives: Ints
    weights: Floats
    bic_by_k: tuple[float, ...]


def find_probe_phases(
    vectors: FrequencyVectors, trace_id: str, rules: PhaseRules, interval_s: Floats | None
) -> tuple[pa.Table, pa.Table, Report]:
    """PHASES and PHASE_POINTS of a serial run, and a Report of its intervals.

    Parameters
    ----------
    vectors : FrequencyVectors
        The intervals of the run.
    trace_id : str
        The name of the run in the tables.
    rules : PhaseRules
        How phases are found, and which ones are relevant and repetitive.
    interval_s : array of shape (intervals,) or None
        Measured time of each interval on the reference machine, s. Without it times are null, and shares are shares of
        executions.

    Notes
    -----
    An occurrence is one interval. Its events are the executions that the vectors count: instructions for exp-bbv. The
    last interval, where it is shorter, is a phase of its own.

    Raises
    ------
    InputError
        Where an interval has no measured time (NaN).
    """
    n, is_timed, amount = vectors.n_intervals, interval_s is not None, vectors.totals
    if interval_s is not None:
        expected = f"a measured time of each of the {n} intervals"
        untimed = np.setdiff1d(np.arange(n), np.flatnonzero(~np.isnan(interval_s)))
        if len(untimed):
            raise InputError(vectors.label, f"no time of interval {untimed[0]} ({len(untimed)} without)", expected)
        amount = interval_s
    found = cluster_intervals(vectors, rules.probes)
    labels = found.labels
    if vectors.last_is_shorter:
        # It stands for no other interval.
        labels = row_codes(np.r_[labels[:-1], labels.max() + 1])
    phases = phases_table(trace_id, labels, np.ones(n, np.int64), vectors.totals, amount, rules, is_timed=is_timed)
    executed = np.concatenate(([0], np.cumsum(vectors.totals.astype(np.int64))))
    clock_s = np.concatenate(([0.0], np.cumsum(amount)))
    points = points_table(trace_id, labels, executed[:, None], clock_s[:, None], is_timed=is_timed)
    facts: dict[str, Fact] = {
        "intervals": n, "blocks": len(vectors.block_ids), "executions": float(vectors.totals.sum()),
        "comments": vectors.n_comments, "phases": len(found.weights),
        "representatives": " ".join(str(one) for one in found.representatives if one >= 0),
        "runtime_s": float(interval_s.sum()) if interval_s is not None else None,
    }  # fmt: skip
    if interval_s is not None:
        means_s = np.bincount(found.labels, interval_s) / np.bincount(found.labels)
        curve = removal_curve(found.weights, means_s, n, float(interval_s.sum()))
        facts |= {f"accuracy_with_{step.n_phases}": step.accuracy for step in curve}
    return phases, points, Report("find_phases", "interval", Tally(n), Tally(n), facts=facts)


def cluster_intervals(vectors: FrequencyVectors, rules: ProbeRules) -> ProbePhases:
    """The phases of a run as SimPoint 3.2 finds them, with k-means++ in place of random first centres."""
    points = project(vectors, rules.dimensions, rules.seed)
    # k-means with restarts for every number of phases; the BIC chooses the number.
    limit = min(rules.max_phases, len(np.unique(points, axis=0)))
    tried = [
        cluster(points, k, rules.restarts, rules.max_steps, np.random.default_rng([rules.seed, k]))
        for k in range(1, limit + 1)
    ]
    chosen = choose(tried, rules.bic_share)
    labels = row_codes(chosen.labels)
    phases = np.arange(labels.max() + 1)
    # The interval nearest to the centre of each phase represents it, the shorter last one none.
    distances = np.square(points - chosen.centres[chosen.labels]).sum(axis=1)
    if vectors.last_is_shorter:
        distances[-1] = np.inf
    nearest = np.array([np.argmin(np.where(labels == phase, distances, np.inf)) for phase in phases])
    is_there = np.isfinite(distances[nearest]) & (labels[nearest] == phases)
    weights, bics = np.bincount(labels) / len(labels), tuple(run.bic for run in tried)
    return ProbePhases(labels, np.where(is_there, nearest, -1), weights, bics)


def project(vectors: FrequencyVectors, dimensions: int, seed: int) -> Floats:
    """Points of shape (intervals, dimensions): each interval's shares of blocks times a random matrix.

    The entries of the matrix are uniform in [-1, 1], as in SimPoint 3.2, which nearly keeps distances (Johnson and
    Lindenstrauss). Programs with no more blocks than dimensions keep their shares as they are.
    """
    shares = vectors.count / np.repeat(vectors.totals, np.diff(vectors.first_entry))
    n_blocks = len(vectors.block_ids)
    rows = csr_array((shares, vectors.block, vectors.first_entry), shape=(vectors.n_intervals, n_blocks))
    if n_blocks <= dimensions:
        return np.asarray(rows.toarray())
    matrix = np.random.default_rng(seed).uniform(-1, 1, (n_blocks, dimensions))
    return np.asarray(rows @ matrix)


@dataclass(frozen=True, slots=True)
class Clustering:
    """One clustering: labels from 0 (n), centres (k, d), the sum of squared distances and the BIC."""

    labels: Ints
    centres: Floats
    squared_error: float
    bic: float


def cluster(points: Floats, k: int, restarts: int, max_steps: int, rng: np.random.Generator) -> Clustering:
    """The best of some runs of k-means with k-means++ centres: that of the least squared error."""
    runs = []
    for _ in range(restarts):
        with warnings.catch_warnings():
            # A cluster that loses its last point keeps its centre, of which scipy warns.
            warnings.simplefilter("ignore", UserWarning)
            centres, _ = kmeans2(points, k, iter=1, minit="++", rng=rng)
            for _ in range(0, max_steps, STEPS_A_CALL):
                before = centres
                centres, _ = kmeans2(points, before, iter=STEPS_A_CALL, minit="matrix")
                if np.array_equal(before, centres):
                    break
        labels, distances = vq(points, centres)
        squared_error = float(np.square(distances).sum())
        bic = spherical_bic(np.bincount(labels, minlength=k), squared_error, points.shape[1])
        runs.append(Clustering(labels.astype(np.int64), centres, squared_error, bic))
    return min(runs, key=lambda run: run.squared_error)


def spherical_bic(sizes: Ints, squared_error: float, dimensions: int) -> float:
    """The Bayesian information criterion of clusters as spherical Gaussians of one variance; larger is better.

    The parameters are the k - 1 shares, the k centres and the variance. Clusters without error (each point at its
    centre) have an infinite likelihood: the variance is kept above the rounding error.
    """
    n, k = int(sizes.sum()), len(sizes)
    variance = max(squared_error / (dimensions * max(n - k, 1)), np.finfo(np.float64).eps)
    members = sizes[sizes > 0].astype(np.float64)
    likelihood = float((members * np.log(members / n)).sum())
    likelihood -= n * dimensions / 2 * math.log(2 * math.pi * variance) + dimensions * (n - k) / 2
    return likelihood - (k - 1 + k * dimensions + 1) / 2 * math.log(n)


def choose(candidates: list[Clustering], share: float) -> Clustering:
    """The first (smallest k) whose BIC reaches `share` of the way from the worst to the best BIC."""
    bics = [candidate.bic for candidate in candidates]
    bound = min(bics) + share * (max(bics) - min(bics))
    return next(candidate for candidate in candidates if candidate.bic >= bound)


@dataclass(frozen=True, slots=True)
class RemovalStep:
    """With the `n_phases` heaviest phases: their share of intervals, the runtime (s), and 1 - |relative error|."""

    n_phases: int
    coverage: float
    runtime_s: float
    accuracy: float


def removal_curve(
    weights: Floats, phase_mean_s: Floats, n_intervals: int, run_s: float, n_phases: tuple[int, ...] = N_PHASES
) -> list[RemovalStep]:
    """The runtime from the phases of the most intervals alone, expanded to the run by their share of intervals.

    Source: Strube 2011, section 5.3 and figure 6.2.

    `weights` are shares of intervals, `phase_mean_s` the mean time of the timed intervals of each phase, and `run_s`
    the measured runtime of the run. Phases chosen by their time would be slow ones, which would bias the expansion by
    intervals. Where `n_phases` has counts above the number of phases, all phases are taken.
    """
    order = np.argsort(-weights, kind="stable")
    steps = []
    for n in sorted({min(n, len(order)) for n in n_phases}):
        kept = order[:n]
        coverage = float(weights[kept].sum())
        runtime_s = float((weights[kept] * phase_mean_s[kept]).sum()) * n_intervals / coverage
        steps.append(RemovalStep(n, coverage, runtime_s, 1 - abs(runtime_s / run_s - 1)))
    return steps


def looks_like_vectors(path: Path) -> bool:
    """Whether the first line of a file that is neither empty nor a comment starts as an interval does."""
    try:
        return next((line for _, line in _lines(path) if not line.startswith(b"#")), b"").startswith(b"T")
    except InputError:
        return False


def read_frequency_vectors(path: Path) -> FrequencyVectors:
    """The intervals of a .bb or .bb.gz file, in the order of its lines.

    Raises InputError, one sentence with file and line, where the file is cut off, damaged, empty or not of this form.
    """
    label, n_comments = printable(path.name), 0
    entries: list[Ints] = []
    for where, line in _lines(path):
        if line.startswith(b"#"):
            n_comments += 1
            continue
        if not _INTERVAL.fullmatch(line):
            raise InputError(where, f"'{printable(line[:40].decode('utf-8', 'backslashreplace'))}'", EXPECTED)
        entries.append(np.array(line[1:].replace(b":", b" ").split(), np.int64).reshape(-1, 2))
        if not entries[-1][:, 1].any():
            raise InputError(where, "an interval without executions", "counts above 0")
    if not entries:
        raise InputError(label, "no interval", EXPECTED, "name a file written by exp-bbv or a tool of Pin")
    blocks, counts = np.concatenate(entries).T
    block_ids, block = np.unique(blocks, return_inverse=True)
    first_entry = np.concatenate(([0], np.cumsum([len(one) for one in entries])))
    return FrequencyVectors(
        label, first_entry, block.astype(np.int32), counts.astype(np.float64), block_ids, n_comments
    )


def _lines(path: Path) -> Iterator[tuple[str, bytes]]:
    """The lines that are not empty, each after its place in words; InputError where the file is cut off or damaged."""
    label, number, do = printable(path.name), 0, "the file is cut off or damaged; write or copy it again"
    try:
        with open_plain(path) as stream:
            while line := stream.readline(MAX_LINE_BYTES):
                number += 1
                where = f"{label}, line {number}"
                if not line.endswith(b"\n") and len(line) == MAX_LINE_BYTES:
                    raise InputError(where, f"more than {MAX_LINE_BYTES >> 20} MiB without a line end", EXPECTED)
                if not line.endswith(b"\n"):
                    raise InputError(where, "a last line without its line end", "a whole file", do)
                if text := line.strip():
                    yield where, text
    except (EOFError, zlib.error, BadGzipFile) as error:
        # BadGzipFile is an OSError too: it is caught here, before the errors of the disk.
        raise InputError(f"{label}, after line {number}", f"damaged gzip data ({error})", "a whole file", do) from error
    except OSError as error:
        raise InputError(label, f"a file that cannot be read ({error.strerror})", "a readable file") from error


def read_interval_times(path: Path, n_intervals: int, column: str = "time_s") -> Floats:
    """(intervals,) seconds of a CSV with a column `interval` from 0 and one of times; NaN where it has no row.

    InputError where the file cannot be read, lacks a column, or holds an interval twice, a number outside the run, or a
    time that is not positive.
    """
    times_s = np.full(n_intervals, np.nan)
    for where, row in csv_rows(path, ("interval", column)):
        text = row["interval"]
        if not text.isdecimal() or int(text) >= n_intervals:
            found = f"interval {printable(text, 40) or 'empty'}"
            raise InputError(where, found, f"an interval from 0 to {n_intervals - 1}")
        if not np.isnan(times_s[int(text)]):
            raise InputError(where, f"interval {text} a second time", "one row an interval")
        times_s[int(text)] = seconds_of(row, column, where, is_positive=True)
    return times_s


def extract(path: Path, trace_id: str, rules: PhaseRules, times: Path | None = None) -> Extracted:
    """The phases of a serial run; `times` is a CSV of the times of its intervals, or None where none were measured."""
    vectors = read_frequency_vectors(path)
    interval_s = None if times is None else read_interval_times(times, vectors.n_intervals)
    phases, points, found = find_probe_phases(vectors, trace_id, rules, interval_s)
    lines = Tally(vectors.n_intervals + vectors.n_comments)
    aside = {"comment": Tally(vectors.n_comments)}
    read = Report("read_vectors", "line", lines, Tally(vectors.n_intervals), aside).check()
    return Extracted(phases, points, 1, (read, found))


def times_of(points: pa.Table, _calls: pa.Table | None, path: Path) -> tuple[Floats, float | None]:
    """The times of the intervals on another machine; the run's time is their sum where all of them were timed."""
    times_s = read_interval_times(path, points.num_rows)
    return times_s, None if np.isnan(times_s).any() else float(times_s.sum())


PROBES = PhaseInput("bbv", "basic-block vectors (.bb of SimPoint)", looks_like_vectors, extract, times_of)
