"""Models of runtimes over inputs, as the table V of Singh et al. (2007), and what their errors and intervals promise.

python -m benchmarks.bench_inputs [--data FOLDER] [--part PART] [--seeds 0 1 2] [--out FILE.jsonl]

FOLDER has hsmgp_AllNumeric.csv, hpl-smpi/, smg2000/ and archer_benchmarks_runs.csv. Errors are per cent of the runtime.
FILE.jsonl gets each figure as it is found; figures of accuracy that it has are not measured again, so that a
measurement can be stopped and continued. `python -m benchmarks.inputs_table FILE.jsonl` prints its tables.
"""

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

for library in ("OMP", "OPENBLAS", "MKL"):
    os.environ[f"{library}_NUM_THREADS"] = "1"

import lightgbm  # noqa: E402
import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402
import pyarrow as pa  # noqa: E402
from sklearn.gaussian_process import GaussianProcessRegressor  # noqa: E402
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel  # noqa: E402

from benchmarks.inputs_data import SETS, RunSet, archer, hpl, shuffled, smg_parallel  # noqa: E402
from pipeline.inputs import (  # noqa: E402
    Cost,
    Declaration,
    Input,
    InputType,
    LearnRules,
    SuggestRule,
    learn,
    predict,
    suggest,
)
from pipeline.inputs.encoding import raw_inputs  # noqa: E402
from pipeline.inputs.learning import usable_runs  # noqa: E402
from pipeline.inputs.methods import METHODS  # noqa: E402
from pipeline.inputs.suggestions import far_apart  # noqa: E402
from pipeline.inputs.training import Training  # noqa: E402

DATA = Path(__file__).parents[2] / "shared" / "data" / "scaling"
MOST_SLOW_RUNS = 350
"""Above, scikit-learn's process and the rounds of active learning take minutes."""
Rows = list[dict[str, Any]]

OURS: dict[str, dict[str, Any]] = {
    "gp": {"method": "gp"},
    "trees": {"method": "trees"},
    "network": {"method": "network"},
    "network, bags": {"method": "network", "network_members": "bags"},
    "network, log time": {"method": "network", "network_target": "log"},
    "laws": {"method": "laws"},
    "nearest": {"method": "nearest"},
}


Known = Callable[[str, float, int, str], bool]
"""Whether a set, size, seed and method has been measured."""


def accuracy(
    folder: Path, seeds: Sequence[int], methods: Sequence[str] = (), known: Known | None = None
) -> Iterator[dict[str, Any]]:
    """Errors on all runs that are not learnt from, for random training sets of each size."""
    for seed in seeds:
        for runs in (make(folder) for make in SETS):
            order = shuffled(runs, seed)
            for size in runs.sizes:
                n = round(size * len(order))
                yield from _accuracy_of(runs, order[:n], order[n:], size, seed, methods, known)


def _accuracy_of(
    runs: RunSet, known: np.ndarray, later: np.ndarray, size: float, seed: int, methods: Sequence[str],
    is_measured: Known | None,
) -> Iterator[dict[str, Any]]:  # fmt: skip
    truth = runs.runs["time_s"].to_numpy()[later]
    for name, predicted in _predictions(runs, known, later, seed):
        if (methods and name not in methods) or (is_measured and is_measured(runs.name, size, seed, name)):
            continue
        began = time.process_time()
        error = 100 * np.abs(predicted() / truth - 1)
        figures = {"mean": error.mean(), "sd": error.std(), "cpu_s": time.process_time() - began}
        yield {"set": runs.name, "size": size, "n": len(known), "seed": seed, "method": name, **figures}


def _predictions(
    runs: RunSet, known: np.ndarray, later: np.ndarray, seed: int
) -> Iterator[tuple[str, Callable[[], np.ndarray]]]:
    for name, settings in OURS.items():
        yield name, lambda settings=settings: _ours(runs, known, later, LearnRules(seed=seed, **settings))
    if len(known) <= MOST_SLOW_RUNS:
        yield "network, active", lambda: _active(runs, np.concatenate([known, later]), len(known), later, seed)
    training, x = _encoded(runs, known, later, LearnRules(seed=seed))
    if len(known) <= MOST_SLOW_RUNS:
        yield "scikit-learn GP", lambda: _sklearn(training, x, seed)
    yield "LightGBM defaults", lambda: _lightgbm(training, x)


def _encoded(runs: RunSet, known: np.ndarray, later: np.ndarray, settings: LearnRules) -> tuple[Training, np.ndarray]:
    """The runs as `learn` encodes them, and the points, without the tests that leave values out."""
    training = usable_runs(runs.table(known), runs.declaration, settings).training
    return training, training.encoding.encode(raw_inputs(runs.table(later), runs.declaration))


def _ours(runs: RunSet, known: np.ndarray, later: np.ndarray, settings: LearnRules) -> np.ndarray:
    training, x = _encoded(runs, known, later, settings)
    method = METHODS[settings.method]
    fitted = method.fit(training)
    return np.exp(method.predict(fitted.arrays, fitted.facts, x)[0])


def _active(runs: RunSet, order: np.ndarray, n: int, later: np.ndarray, seed: int) -> np.ndarray:
    """The paper's active learning: 50 runs at first, 50 more a round, by variation and distance; scored on `later`.

    Runs that it took from `later` are scored too, as in the paper's actual errors.
    """
    settings, method = LearnRules(method="network", seed=seed), METHODS["network"]
    known, rest = order[: min(n, 50)], order[min(n, 50) :]
    while True:
        training, x = _encoded(runs, known, np.concatenate([rest, later]), settings)
        fitted = method.fit(training)
        if len(known) >= n:
            return np.exp(method.predict(fitted.arrays, fitted.facts, x[len(rest) :])[0])
        every = np.exp(method.members(fitted.arrays, fitted.facts, x[: len(rest)]))
        # At most 1,000 candidates are compared; distances of more would take most of the time.
        some = np.argsort(-(every.std(axis=0) / every.mean(axis=0)), kind="stable")[:1000]
        ranked = some[far_apart(x[some], (every.std(axis=0) / every.mean(axis=0))[some])]
        taken = ranked[: min(50, n - len(known))]
        known, rest = np.concatenate([known, rest[taken]]), np.delete(rest, taken)


def _sklearn(training: Training, x: np.ndarray, seed: int) -> np.ndarray:
    kernel = ConstantKernel() * Matern(np.ones(training.x.shape[1]), nu=2.5) + WhiteKernel(0.1)
    process = GaussianProcessRegressor(kernel, normalize_y=True, random_state=seed).fit(training.x, training.y)
    return np.exp(process.predict(x))


def _lightgbm(training: Training, x: np.ndarray) -> np.ndarray:
    data = lightgbm.Dataset(training.x, training.y)
    return np.exp(lightgbm.train({"num_threads": 1, "verbosity": -1, "objective": "regression"}, data, 100).predict(x))


def batches(folder: Path, seeds: Sequence[int]) -> Iterator[dict[str, Any]]:
    """HPL: two thirds of the batches are learnt from; error and intervals are checked on the others."""
    runs = hpl(folder)
    names = runs.runs["batch"].unique()
    for seed in seeds:
        known = np.isin(runs.runs["batch"], np.random.default_rng(seed).permutation(names)[: 2 * len(names) // 3])
        for by in ["batch"] if seed else ["batch", None]:
            declaration = replace(runs.declaration, batch=by)
            model = learn(runs.table(known), declaration, LearnRules(seed=seed))
            figures = _checked(model, runs.table(~known), runs.runs["time_s"].to_numpy()[~known])
            yield dict(folds=by or "random", seed=seed, announced=model.error.mean_pct, **figures)


def _checked(model: Any, points: pa.Table, truth: np.ndarray) -> dict[str, Any]:
    """Errors of the answered points, and the shares in their intervals."""
    answers = predict(model, points).to_pandas()
    answered = answers["median_s"].notna().to_numpy()
    error = 100 * np.abs(answers["median_s"] / truth - 1)
    inside = {level: answers[f"low{level}_s"].le(truth) & answers[f"high{level}_s"].ge(truth) for level in (80, 95)}
    shares = {f"in_{level}": inside[level][answered].mean() for level in inside}
    said = answers["error_pct"][answered].mean()
    return dict(error=error[answered].mean(), said=said, **shares, answered=answered.mean())


def suggestions(folder: Path, seeds: Sequence[int]) -> Iterator[dict[str, Any]]:
    """Errors on the runs not made, after spending shares of the cost of all runs: 20 random runs, then each rule's."""
    for runs in (hpl(folder), smg_parallel(folder)):
        for seed in seeds:
            for rule in SuggestRule:
                yield from _spent(runs, seed, rule)


def _spent(runs: RunSet, seed: int, rule: SuggestRule) -> Iterator[dict[str, Any]]:
    truth = runs.runs["time_s"].to_numpy()
    costs = truth * runs.runs[runs.declaration.procs].to_numpy()
    order = shuffled(runs, seed)
    known, rest = order[:20], order[20:]
    for share in (0.025, 0.05, 0.1):
        budget = share * costs.sum()
        while True:
            model = learn(runs.table(known), runs.declaration, LearnRules(seed=seed, outside="predict"))
            left = budget - costs[known].sum()
            # A third more runs a round, so that the model keeps up with what was learnt.
            ask = Cost(budget=max(left, 0.0), n_runs=max(len(known) // 3, 5))
            chosen = suggest(model, runs.table(rest), ask, rule).column("candidate").to_numpy()
            # The price is paid in true runtimes.
            chosen = chosen[np.cumsum(costs[rest[chosen]]) <= left]
            if not len(chosen):
                break
            known, rest = np.concatenate([known, rest[chosen]]), np.delete(rest, chosen)
        found = predict(model, runs.table(rest)).column("median_s").to_numpy()
        error = 100 * np.nanmean(np.abs(found / truth[rest] - 1))
        yield {"set": runs.name, "seed": seed, "rule": rule.value, "share": share, "n": len(known), "error": error}


def unseen(folder: Path, seeds: Sequence[int]) -> Iterator[dict[str, Any]]:  # noqa: ARG001  (there is nothing to draw)
    """Systems of ARCHER's codes and values of HPL's categories left out: refused, or within the announced error."""
    sets = [(archer(folder, name), "system") for name in ("CASTEP", "GROMACS", "VASP", "OpenSBLI")]
    sets += [(hpl(folder), name) for name in ("PFACT", "RFACT", "BCAST", "SWAP")]
    for runs, name in sets:
        for value, count in runs.runs[name].value_counts().items():
            out = (runs.runs[name] == value).to_numpy()
            if count < 3 or (~out).sum() < 30:
                continue
            rows = np.flatnonzero(~out)
            rows = rows if len(rows) <= 300 else np.random.default_rng(0).choice(rows, 300, replace=False)
            model = learn(runs.table(rows), runs.declaration, LearnRules())
            figures = _checked(model, runs.table(out), runs.runs["time_s"].to_numpy()[out])
            kept = figures["answered"] == 0 or figures["error"] <= figures["said"]
            yield dict(set=runs.name, input=name, value=str(value), n=int(count), kept=bool(kept), **figures)


def speed(folder: Path, seeds: Sequence[int]) -> Iterator[dict[str, Any]]:  # noqa: ARG001  (runs are simulated)
    """CPU seconds and seconds to learn, and to predict 10,000 points, with 8 inputs."""
    declaration = Declaration(inputs=tuple(Input(name=f"x{j}", type=InputType.LOG_NUMBER) for j in range(8)))
    for n, method in ((250, "gp"), (20_000, "trees")):
        runs, points = _simulated(n), _simulated(10_000)
        cpu, wall = time.process_time(), time.perf_counter()
        model = learn(runs, declaration, LearnRules(method=method))
        learnt = time.process_time() - cpu, time.perf_counter() - wall
        cpu, wall = time.process_time(), time.perf_counter()
        predict(model, points)
        asked = time.process_time() - cpu, time.perf_counter() - wall
        yield {"method": method, "runs": n, **dict(zip(TIMES, learnt + asked, strict=True))}


TIMES = ("learn_cpu_s", "learn_s", "predict_cpu_s", "predict_s")


def _simulated(n: int) -> pa.Table:
    rng = np.random.default_rng(n)
    x = np.exp(rng.uniform(0.0, 5.0, (n, 8)))
    seconds = (x[:, 0] * x[:, 1] / x[:, 2] + 5 * np.sqrt(x[:, 3]) + x[:, 4]) * np.exp(rng.normal(0, 0.1, n))
    return pa.table({**{f"x{j}": x[:, j] for j in range(8)}, "time_s": seconds})


PARTS: dict[str, Callable[[Path, int], Iterator[dict[str, Any]]]] = {
    "accuracy": accuracy,
    "batches": batches,
    "suggest": suggestions,
    "unseen": unseen,
    "speed": speed,
}
KEYS = {
    "accuracy": ["set", "size", "n", "method"], "batches": ["folds"], "suggest": ["set", "share", "rule"],
    "unseen": ["set", "input"], "speed": ["method", "runs"],
}  # fmt: skip


def main() -> None:
    """Print one table, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--part", choices=list(PARTS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--methods", nargs="+", default=[], help="only these columns of the part accuracy")
    parser.add_argument("--out", type=Path, help="a file of JSON lines that each figure is added to at once")
    given = parser.parse_args()
    if not given.data.exists():
        print(f"{given.data}: no such folder; nothing was measured")
        return
    measured = _measured(given.out)
    for part in [given.part] if given.part else list(PARTS):
        rows: Rows = []
        found = (
            accuracy(given.data, given.seeds, given.methods, lambda *key: key in measured)
            if part == "accuracy"
            else PARTS[part](given.data, given.seeds)
        )
        for row in found:
            rows.append(row)
            if given.out:
                with given.out.open("a") as sink:
                    sink.write(json.dumps({"part": part, **row}, default=float) + "\n")
        if rows and not given.out:
            table = pd.DataFrame(rows).drop(columns="seed", errors="ignore")
            print(table.groupby(KEYS[part], sort=False).mean(numeric_only=True).round(2).to_string(), flush=True)


def _measured(path: Path | None) -> set[tuple[str, float, int, str]]:
    """Set, size, seed and method of each figure of accuracy in a file."""
    lines = path.read_text().splitlines() if path and path.exists() else []
    rows = [row for row in map(json.loads, lines) if row["part"] == "accuracy"]
    return {(row["set"], row["size"], row["seed"], row["method"]) for row in rows}


if __name__ == "__main__":
    main()
