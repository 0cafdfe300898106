"""Probes on the basic-block vectors of shared/data/bbv: phases beside SimPoint's, and predictions from few intervals.

python -m benchmarks.bench_probes FOLDER [SEEDS]

FOLDER has PROG.CLASS.KIND.bb.gz and .labels.gz, and .times.csv.gz where intervals were timed, with columns cpu_s_1 to
cpu_s_3 of three repeats. Each repeat is the reference of the two others in turn. The default is one seed, 0.
"""

import gzip
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.backtest_table import line
from benchmarks.probe_figures import RULES, Scored, adjusted_rand_index, one_each, predicted
from pipeline.phases.blocks import (
    N_PHASES,
    FrequencyVectors,
    ProbePhases,
    cluster_intervals,
    find_probe_phases,
    read_frequency_vectors,
    read_interval_times,
    removal_curve,
)
from pipeline.phases.phase_input import PhaseRules, ProbeRules

SAMPLES = (1, 3, 5, 10, 20, 30)
FORMS = tuple(RULES)
REPEATS = (1, 2, 3)
Floats = npt.NDArray[np.float64]


def main(folder: Path, seeds: int) -> None:
    """Print the three tables of benchmarks/probes.md."""
    runs = {path.name[: -len(".bb.gz")]: path for path in sorted(folder.glob("*.bb.gz"))}
    vectors = {name: read_frequency_vectors(path) for name, path in runs.items()}
    print("\n".join(_agreement(name, one, folder, seeds) for name, one in vectors.items()))
    timed = {name: one for name, one in vectors.items() if (folder / f"{name}.times.csv.gz").exists()}
    times = {name: _times(folder, name, one.n_intervals) for name, one in timed.items()}
    print()
    print("\n".join(_predictions(timed, times, seeds)))
    print()
    print("\n".join(_removal(timed, times)))


def _settings(seed: int) -> PhaseRules:
    return PhaseRules(probes=ProbeRules(seed=seed))


def _times(folder: Path, name: str, n_intervals: int) -> list[Floats]:
    path = folder / f"{name}.times.csv.gz"
    return [read_interval_times(path, n_intervals, f"cpu_s_{repeat}") for repeat in REPEATS]


def _agreement(name: str, vectors: FrequencyVectors, folder: Path, seeds: int) -> str:
    """Intervals, blocks, phases of SimPoint and ours, agreement for seed 0 and its range over seeds, CPU s."""
    with gzip.open(folder / f"{name}.labels.gz", "rt") as lines:
        theirs = np.array([int(one.split()[0]) for one in lines])
    started = time.process_time()
    found = [cluster_intervals(vectors, ProbeRules(seed=seed)) for seed in range(seeds)]
    taken_s = (time.process_time() - started) / seeds
    agreed = [adjusted_rand_index(one.labels, theirs) for one in found]
    counts = f"{len(np.unique(theirs))} | {len(found[0].weights)}"
    return line([
        name, str(vectors.n_intervals), str(len(vectors.block_ids)), counts, f"{agreed[0]:.3f}",
        f"{min(agreed):.3f} to {max(agreed):.3f}", f"{taken_s:.2f}",
    ])  # fmt: skip


def _predictions(vectors: dict[str, FrequencyVectors], times: dict[str, list[Floats]], seeds: int) -> Iterable[str]:
    """One line a form and number of samples, then one a program for the answers from five samples."""
    scored = _scores(vectors, times, seeds)
    for form in FORMS:
        for samples in SAMPLES:
            yield line([form, str(samples), *_summary([s for (_, *key), s in scored if key == [form, samples]])])
    nearest = [s for (_, *key), s in scored if key == ["nearest", 1]]
    yield line(["count", "the nearest to the centre", *_summary(nearest)])
    for name in vectors:
        yield line([name, "5", *_summary([s for key, s in scored if key == (name, "answer", 5)])])


def _scores(
    vectors: dict[str, FrequencyVectors], times: dict[str, list[Floats]], seeds: int
) -> list[tuple[tuple[str, str, int], Scored]]:
    scored = []
    for name, one in vectors.items():
        for seed in range(seeds):
            found = cluster_intervals(one, ProbeRules(seed=seed))
            for here in range(len(REPEATS)):
                phases, points, _ = find_probe_phases(one, name, _settings(seed), times[name][here])
                for there in set(range(len(REPEATS))) - {here}:
                    target_s = times[name][there]
                    for form in FORMS:
                        scored += [((name, form, n), predicted(phases, points, target_s, n, form)) for n in SAMPLES]
                    scored.append(((name, "nearest", 1), one_each(found.representatives, found.weights, target_s)))
    return scored


def _summary(scored: Sequence[Scored]) -> list[str]:
    """Errors, mean and largest, also of the control; coverage, half width, share of time, and how often it is even."""
    errors, controls = np.array([s.error for s in scored]), np.array([s.control_error for s in scored])
    held = [np.mean([getattr(s, name) for s in scored]) for name in ("in_80", "in_95")]
    return [
        *(f"{100 * value:.2f}%" for value in (errors.mean(), errors.max(), controls.mean(), controls.max())),
        *("" if np.isnan(scored[0].width_95) else f"{100 * share:.0f}%" for share in held),
        "" if np.isnan(scored[0].width_95) else f"{100 * np.mean([s.width_95 for s in scored]):.1f}%",
        f"{100 * np.mean([s.set_share for s in scored]):.1f}%",
        f"{100 * np.mean([s.is_even for s in scored]):.0f}%",
    ]


def _removal(vectors: dict[str, FrequencyVectors], times: dict[str, list[Floats]]) -> Iterable[str]:
    """The accuracy with 1, 2, 3, 5 and 8 phases for each program, from all their intervals, and the mean."""
    curves = []
    for name, one in vectors.items():
        curves.append(_curve(cluster_intervals(one, ProbeRules()), times[name][0]))
        yield line([name, *(f"{100 * accuracy:.0f}%" for accuracy in curves[-1])])
    yield line(["mean", *(f"{100 * accuracy:.0f}%" for accuracy in np.mean(curves, axis=0))])


def _curve(found: ProbePhases, interval_s: Floats) -> list[float]:
    means_s = np.bincount(found.labels, interval_s) / np.bincount(found.labels)
    steps = removal_curve(found.weights, means_s, len(interval_s), float(interval_s.sum()), N_PHASES)
    return [step.accuracy for step in steps]


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(print("This benchmark needs basic-block vectors: python -m benchmarks.bench_probes FOLDER [SEEDS]"))
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1)
