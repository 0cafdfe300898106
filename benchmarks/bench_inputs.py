"""Models of runtimes over inputs beside four libraries, and what their errors and intervals promise.

python -m benchmarks.bench_inputs [--data FOLDER] [--part PART] [--seeds 0 1 2] [--out FILE.jsonl]

FOLDER has hsmgp_AllNumeric.csv, hpl-smpi/, smg2000/ and archer_benchmarks_runs.csv. Errors are per cent of the runtime.
CatBoost and LightGBM are measured where they are installed; Walltime does not need them. FILE.jsonl gets each figure as
it is found; figures of accuracy that it has are not measured again, so that a measurement can be stopped and continued.
`python -m benchmarks.inputs_table FILE.jsonl` prints its tables.
"""

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

for library in ("OMP", "OPENBLAS", "MKL"):
    os.environ[f"{library}_NUM_THREADS"] = "1"

import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402
import pyarrow as pa  # noqa: E402
from scipy.spatial import KDTree  # noqa: E402
from sklearn.ensemble import ExtraTreesRegressor  # noqa: E402
from sklearn.gaussian_process import GaussianProcessRegressor  # noqa: E402
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel  # noqa: E402

from benchmarks import network, product_laws  # noqa: E402
from benchmarks.inputs_data import SETS, RunSet, archer, coded, hpl, hsmgp_named, shuffled, smg_parallel, smg_serial  # noqa: E402
from benchmarks.simulated_inputs import amg, c3o, exafmm, kripke  # noqa: E402
from pipeline.inputs import (  # noqa: E402
    Cost,
    Declaration,
    Input,
    InputType,
    LearnRules,
    learn,
    predict,
    suggest,
    trees,
)
from pipeline.inputs import gaussian_process as process  # noqa: E402
from pipeline.inputs.declaration import MethodName  # noqa: E402
from pipeline.inputs.encoding import Training, raw_inputs, usable_runs  # noqa: E402
from pipeline.inputs.learning import as_categories, codes_among  # noqa: E402

DATA = Path(__file__).parents[2] / "shared" / "data" / "scaling"
MOST_SLOW_RUNS = 350
"""Above, scikit-learn's process takes minutes."""
MOST_SCORED = 2000
"""Runs that are predicted, of those not learnt from."""
Rows = list[dict[str, Any]]
OURS: tuple[MethodName, ...] = ("auto", "gp")
NEIGHBOURS = 3
MOST_TESTED = 2048
"""Runs that the part `intervals` learns from at most: its tests of points outside the runs learn anew many times."""
ALL_SETS: tuple[Callable[[Path], RunSet], ...] = (
    *SETS, lambda _: amg(12_000), lambda _: kripke(6000), lambda _: exafmm(6000), lambda _: c3o(), hsmgp_named,
    *(lambda folder, make=make: coded(make(folder))
      for make in (hpl, hsmgp_named, smg_serial, lambda _: amg(12_000), lambda _: kripke(6000))),
)  # fmt: skip


Known = Callable[[str, float, int, str], bool]
"""Whether a set, size, seed and method has been measured."""


def accuracy(
    folder: Path, seeds: Sequence[int], methods: Sequence[str] = (), known: Known | None = None
) -> Iterator[dict[str, Any]]:
    """Errors on all runs that are not learnt from, for random training sets of each size."""
    for seed in seeds:
        for runs in (make(folder) for make in ALL_SETS):
            order = shuffled(runs, seed)
            for size in runs.sizes:
                n = round(size * len(order)) if size < 1 else int(size)
                yield from _accuracy_of(runs, order[:n], order[n:][:MOST_SCORED], size, seed, methods, known)


def _accuracy_of(
    runs: RunSet, known: np.ndarray, later: np.ndarray, size: float, seed: int, methods: Sequence[str],
    is_measured: Known | None,
) -> Iterator[dict[str, Any]]:  # fmt: skip
    truth = _seconds(runs, later)
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
    for name in OURS:
        yield name, lambda name=name: _ours(runs, known, later, LearnRules(seed=seed, method=name))
    training, x = _encoded(runs, known, later, LearnRules(seed=seed))
    for name, (predicted, most) in RIVALS.items():
        if len(known) <= most:
            yield name, lambda predicted=predicted: np.exp(predicted(training, x))
    if len(known) <= MOST_SLOW_RUNS:
        yield "scikit-learn GP", lambda: _sklearn(training, x, seed)
    yield "extra trees", lambda: _peer(ExtraTreesRegressor(random_state=seed, n_jobs=1), training, x)
    for name, (module, kind, settings) in PEERS.items():
        if find_spec(module):
            model = getattr(import_module(module), kind)(**settings)
            yield name, lambda model=model: _peer(model, training, x)


def nearest(training: Training, x: np.ndarray) -> np.ndarray:
    """The control: the mean log runtime of the three nearest runs, in standardised inputs."""
    places = KDTree(training.x).query(x, min(NEIGHBOURS, len(training.y)))[1].reshape(len(x), -1)
    return training.y[places].mean(axis=1)


RIVALS = {"laws": (product_laws.predicted, 2048), "network": (network.predicted, 500), "nearest": (nearest, 10_000)}
"""Methods of papers, and the runs above which they take too long."""
PEERS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "CatBoost": ("catboost", "CatBoostRegressor", {"verbose": False, "thread_count": 1, "allow_writing_files": False}),
    "LightGBM": ("lightgbm", "LGBMRegressor", {"verbose": -1, "n_jobs": 1}),
}
"""Libraries at their defaults, which learn log runtimes from the same columns."""


def _encoded(runs: RunSet, known: np.ndarray, later: np.ndarray, settings: LearnRules) -> tuple[Training, np.ndarray]:
    """The runs as `learn` encodes them, and the points, without the tests that leave values out."""
    training = usable_runs(runs.table(known), runs.declaration, settings).training
    return training, training.encoding.encode(raw_inputs(runs.table(later), runs.declaration))


def _ours(runs: RunSet, known: np.ndarray, later: np.ndarray, settings: LearnRules) -> np.ndarray:
    """As `learn` and `predict`, without the tests that leave values out."""
    table, declaration = runs.table(known), runs.declaration
    usable = usable_runs(table, declaration, settings)
    if codes := codes_among(usable, declaration):
        declaration = as_categories(declaration, codes)
        usable = usable_runs(table, declaration, settings)
    training = usable.training
    fitted = process.fit(training)
    if settings.method == "auto":
        fitted = trees.with_trees(training, fitted)
    x = training.encoding.encode(raw_inputs(runs.table(later), declaration))
    return np.exp(process.predict(fitted.arrays, x)[0] + trees.correction(fitted.arrays, x))


def _sklearn(training: Training, x: np.ndarray, seed: int) -> np.ndarray:
    kernel = ConstantKernel() * Matern(np.ones(training.x.shape[1]), nu=2.5) + WhiteKernel(0.1)
    process = GaussianProcessRegressor(kernel, normalize_y=True, random_state=seed).fit(training.x, training.y)
    return np.exp(process.predict(x))


def _peer(model: Any, training: Training, x: np.ndarray) -> np.ndarray:
    return np.exp(model.fit(training.x, training.y).predict(x))


def intervals(folder: Path, seeds: Sequence[int]) -> Iterator[dict[str, Any]]:
    """What the default method is, its error, and the shares in its intervals, of the points that it answers."""
    for seed in seeds:
        for runs in (make(folder) for make in ALL_SETS):
            order = shuffled(runs, seed)
            for size in runs.sizes:
                n = round(size * len(order)) if size < 1 else int(size)
                if n <= MOST_TESTED:
                    model, later = learn(runs.table(order[:n]), runs.declaration, LearnRules(seed=seed)), order[n:]
                    figures = _checked(model, runs.table(later[:MOST_SCORED]), _seconds(runs, later[:MOST_SCORED]))
                    yield dict(set=runs.name, size=size, n=n, seed=seed, method=model.method, **figures)


def _seconds(runs: RunSet, rows: np.ndarray) -> np.ndarray:
    return runs.runs["time_s"].to_numpy()[rows]


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
            for rule in ("suggest", "random"):
                yield from _spent(runs, seed, rule)


def _spent(runs: RunSet, seed: int, rule: str) -> Iterator[dict[str, Any]]:
    truth = runs.runs["time_s"].to_numpy()
    costs = truth * runs.runs[runs.declaration.procs].to_numpy()
    order = shuffled(runs, seed)
    known, rest = order[:20], order[20:]
    for share in (0.025, 0.05, 0.1):
        budget = share * costs.sum()
        while True:
            model = learn(runs.table(known), runs.declaration, LearnRules(seed=seed, method="gp", outside="predict"))
            left = budget - costs[known].sum()
            # A third more runs a round, so that the model keeps up with what was learnt.
            ask = Cost(budget=max(left, 0.0), n_runs=max(len(known) // 3, 5))
            chosen = (
                suggest(model, runs.table(rest), ask).column("candidate").to_numpy()
                if rule == "suggest"
                else np.random.default_rng([seed, len(known)]).permutation(len(rest))[: ask.n_runs]
            )
            # The price is paid in true runtimes.
            chosen = chosen[np.cumsum(costs[rest[chosen]]) <= left]
            if not len(chosen):
                break
            known, rest = np.concatenate([known, rest[chosen]]), np.delete(rest, chosen)
        found = predict(model, runs.table(rest)).column("median_s").to_numpy()
        error = 100 * np.nanmean(np.abs(found / truth[rest] - 1))
        yield {"set": runs.name, "seed": seed, "rule": rule, "share": share, "n": len(known), "error": error}


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
    for n, method in ((250, "gp"), (2000, "gp"), (10_000, "gp"), (20_000, "auto")):
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
    "intervals": intervals,
    "batches": batches,
    "suggest": suggestions,
    "unseen": unseen,
    "speed": speed,
}
KEYS = {
    "accuracy": ["set", "size", "n", "method"], "intervals": ["set", "size", "n"],
    "batches": ["folds"], "suggest": ["set", "share", "rule"],
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
