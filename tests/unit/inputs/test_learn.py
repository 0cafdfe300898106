"""What a model promises: the same bytes, honest intervals and errors, refusals, lower bounds, and clear messages."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from pipeline.errors import InputError
from pipeline.inputs import (
    Declaration,
    DerivedInput,
    Input,
    InputType,
    LearnRules,
    inferred_inputs,
    learn,
    load,
    predict,
    save,
)
from pipeline.inputs.encoding import grouped_folds, time_folds
from pipeline.inputs.validation import effective_number, expected_beyond, quantiles
from tests.unit.inputs.simulated_runs import SIZES, learnt, solver_codes, solver_runs

NUMBER = Declaration(inputs=(Input(name="n", type=InputType.LOG_NUMBER),))


@pytest.mark.parametrize("method", ["gp", "auto"])
def test_the_order_of_the_runs_changes_no_byte_and_a_file_no_prediction(method: str, tmp_path: Path) -> None:
    runs, points = solver_runs(120), solver_runs(30, seed=2)
    shuffled = runs.take(pa.array(np.random.default_rng(1).permutation(120)))
    model = learnt(runs, method=method, folds=3)
    save(model, tmp_path / "a")
    save(learnt(shuffled, method=method, folds=3), tmp_path / "b")
    assert predict(load(tmp_path / "a"), points).equals(predict(model, points))
    assert load(tmp_path / "a").error == model.error
    for file in ("model.json", "arrays.parquet"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


@pytest.mark.parametrize("damage", ['{"format": 1, "method": "gp"}', "{", '{"format": 99}', "[]"])
def test_a_damaged_model_is_one_sentence(damage: str, tmp_path: Path) -> None:
    save(learnt(solver_runs(40)), tmp_path)
    (tmp_path / "model.json").write_text(damage)
    with pytest.raises(InputError, match=r"model\.json: found"):
        load(tmp_path)


def test_intervals_hold_what_they_promise() -> None:
    inside = {"80": [], "95": []}
    for seed in range(6):
        later = solver_runs(300, seed=100 + seed, noise=0.2)
        answers = predict(learnt(solver_runs(100, seed=seed, noise=0.2)), later)
        seconds = later.column("time_s").to_numpy()
        for level, shares in inside.items():
            low, high = (answers.column(f"{side}{level}_s").to_numpy() for side in ("low", "high"))
            answered = np.isfinite(low)
            shares.append(np.mean((low <= seconds)[answered] & (seconds <= high)[answered]))
    assert 0.76 <= np.mean(inside["80"]) <= 0.86
    assert 0.92 <= np.mean(inside["95"]) <= 0.98


def batches(n_batches: int, seed: int) -> pa.Table:
    """Runs of batches of ten, each with a factor of its own."""
    rng = np.random.default_rng(seed)
    n, batch = np.exp(rng.uniform(2, 6, 10 * n_batches)), np.repeat(np.arange(n_batches), 10)
    seconds = n**1.5 * np.exp(rng.normal(0, 0.3, n_batches)[batch] + rng.normal(0, 0.05, len(n)))
    return pa.table({"n": n, "batch": batch, "time_s": seconds})


def test_folds_by_batch_tell_the_error_of_new_batches() -> None:
    runs, later = batches(30, 0), batches(200, 1)
    found = predict(learnt(runs, NUMBER, outside="predict"), later).column("median_s").to_numpy()
    truth = 100 * np.abs(found / later.column("time_s").to_numpy() - 1).mean()
    by_batch = learnt(runs, replace(NUMBER, batch="batch"))
    assert by_batch.error.folds_by == "batch"
    assert by_batch.error.mean_pct == pytest.approx(truth, rel=0.25)
    answers = predict(by_batch, later)
    low, high = (answers.column(f"{side}80_s").to_numpy() for side in ("low", "high"))
    seconds, answered = later.column("time_s").to_numpy(), np.isfinite(low)
    assert 0.7 <= np.mean((low <= seconds)[answered] & (seconds <= high)[answered]) <= 0.9


def test_quantiles_of_single_runs_are_those_of_split_conformal_prediction() -> None:
    found = np.random.default_rng(0).permutation(99).astype(float)
    assert quantiles(found, np.arange(99)) == {"80": 79.0, "95": 94.0}


def test_quantiles_hold_for_a_run_of_a_new_batch_of_any_size() -> None:
    rng, inside = np.random.default_rng(1), []
    for _ in range(400):
        sizes = rng.integers(1, 60, 20)
        found = np.abs(np.repeat(rng.normal(size=20), sizes) + 0.1 * rng.normal(size=sizes.sum()))
        new = abs(rng.normal() + 0.1 * rng.normal())
        limits = quantiles(found, np.repeat(np.arange(20), sizes))
        inside.append([new <= limits["80"], new <= limits["95"]])
    assert np.mean(inside, axis=0) == pytest.approx([0.8, 0.95], abs=0.04)


@pytest.mark.parametrize("shared", [0.0, 0.5, 0.9])
def test_quantiles_hold_whatever_share_of_the_error_a_batch_has_in_common(shared: float) -> None:
    """With the number of batches in place of the effective number, 83% and 98% would be held instead."""
    rng, inside = np.random.default_rng(7), []

    def scores(sizes: np.ndarray) -> np.ndarray:
        own = np.sqrt(1 - shared) * rng.normal(size=sizes.sum())
        return np.abs(np.sqrt(shared) * np.repeat(rng.normal(size=len(sizes)), sizes) + own)

    for _ in range(200):
        sizes = rng.integers(16, 65, 27)
        limits = quantiles(scores(sizes), np.repeat(np.arange(27), sizes))
        new = scores(np.full(40, 10))
        inside.append([(new <= limits[level]).mean() for level in ("80", "95")])
    assert np.mean(inside, axis=0) == pytest.approx([0.805, 0.953], abs=0.017)


def test_the_effective_number_of_runs_is_between_that_of_groups_and_that_of_runs() -> None:
    assert effective_number(np.full(10, 0.2), 0.8, 200) == 200
    assert effective_number(np.array([0.0] * 8 + [1.0] * 2), 0.8, 200) == 10
    assert effective_number(np.array([0.3]), 0.8, 50) == 1


def test_runs_of_one_batch_share_a_fold_and_folds_are_of_like_size() -> None:
    groups = np.random.default_rng(0).integers(0, 40, 400)
    fold = grouped_folds(groups, 10, np.random.default_rng(1))
    assert all(len(set(fold[groups == one])) == 1 for one in range(40))
    assert np.ptp(np.bincount(fold)) <= np.bincount(groups).max()


def test_folds_by_time_are_blocks() -> None:
    times = np.random.default_rng(0).permutation(50).astype(float)
    fold = time_folds(times, 5)
    assert (np.diff(fold[np.argsort(times)]) >= 0).all()
    assert np.bincount(fold).tolist() == [10] * 5


def test_lower_bounds_are_not_taken_for_runtimes() -> None:
    rng = np.random.default_rng(5)
    n = np.exp(rng.uniform(2, 6, 150))
    truth = n**1.5
    seconds = truth * np.exp(rng.normal(0, 0.3, 150))
    stopped = seconds > 800.0
    table = pa.table({"n": n, "time_s": np.minimum(seconds, 800.0), "stopped": stopped})
    told = learnt(table, replace(NUMBER, censored="stopped"))
    largest = pa.table({"n": n[stopped]})
    errors = [
        np.log(predict(m, largest).column("median_s").to_numpy() / truth[stopped])
        for m in (told, learnt(table, NUMBER))
    ]
    assert stopped.sum() > 10
    assert np.abs(errors[0]).mean() < 0.6 * np.abs(errors[1]).mean()
    assert told.error.n_runs == 150 - stopped.sum()


def test_the_expected_runtime_beyond_a_bound_is_that_of_the_normal_distribution() -> None:
    draws = np.random.default_rng(0).normal(2.0, 0.5, 400_000)
    bounds = np.array([1.0, 2.0, 2.8])
    expected = [draws[draws > bound].mean() for bound in bounds]
    assert expected_beyond(bounds, np.full(3, 2.0), np.full(3, 0.5)) == pytest.approx(expected, rel=2e-3)
    assert expected_beyond(np.array([60.0]), np.array([2.0]), np.array([0.5])) >= 60.0


def test_points_that_no_run_is_like_are_refused_with_a_reason() -> None:
    model = learnt(solver_runs(120))
    points = pa.table({"n": [1e3, 1e3, None, 1e9, -5.0], "p": [8.0] * 5, "solver": ["cg", "new", "cg", "cg", "cg"]})
    answers = predict(model, points)
    statuses = ["ok", "refused_category", "missing_input", "refused_outside", "missing_input"]
    assert answers.column("status").to_pylist() == statuses
    assert answers.column("reason").to_pylist()[1] == "solver = new is in no run"
    assert answers.column("reason").to_pylist()[3].startswith("n = 1e+09 is above all runs, which end at ")
    assert answers.column("median_s").null_count == 4


def test_a_little_outside_is_answered_where_tests_on_the_runs_support_it() -> None:
    runs = solver_runs(150)
    edge = float(np.max(runs.column("n").to_numpy()))
    point = pa.table({"n": [edge * 1.05], "p": [8.0], "solver": ["cg"]})
    found = {
        mode: predict(learnt(runs, outside=mode), point).to_pylist()[0] for mode in ("evidence", "predict", "refuse")
    }
    assert [found[mode]["status"] for mode in found] == ["outside", "outside", "refused_outside"]
    assert found["evidence"]["median_s"] == pytest.approx(1e-6 * (edge * 1.05) ** 2 / 8 + 3e-3, rel=0.2)


def test_a_point_outside_is_refused_where_tests_show_that_the_model_fails() -> None:
    """The runtime begins to rise where the last runs are."""
    rng = np.random.default_rng(0)
    n = np.exp(rng.uniform(0, 6, 200))
    model = learnt(pa.table({"n": n, "time_s": 1.0 + np.maximum(n - 150.0, 0.0) ** 3}), NUMBER)
    assert predict(model, pa.table({"n": [n.max() * 1.1]})).column("status").to_pylist() == ["refused_outside"]


def test_a_constant_input_with_another_value_is_refused() -> None:
    runs = solver_runs(40).append_column("nodes", pa.array([4.0] * 40))
    declaration = Declaration(inputs=(*NUMBER.inputs, Input(name="nodes", type=InputType.LOG_NUMBER)))
    answers = predict(learnt(runs, declaration), pa.table({"n": [1e3, 1e3], "nodes": [4.0, 5.0]}))
    assert answers.column("status").to_pylist() == ["ok", "refused_outside"]


def test_runs_that_cannot_be_learnt_from_are_counted() -> None:
    runs = solver_runs(40)
    seconds = runs.column("time_s").to_pylist()
    seconds[:3] = [None, 0.0, float("inf")]
    n = [float("inf"), *runs.column("n").to_pylist()[1:-1], -1.0]
    table = runs.set_column(3, "time_s", pa.array(seconds)).set_column(0, "n", pa.array(n))
    report = learnt(table).report
    counts = {name: tally.rows for name, tally in report.set_aside.items()}
    assert counts == {"no_target": 1, "target_not_positive": 2, "unusable_input": 1}
    assert report.kept.rows == 36


def test_an_unknown_input_is_a_value_of_its_own() -> None:
    """Runs without GPUs have no number of them, and are four times as slow; every run lacks one of the inputs."""
    rng = np.random.default_rng(4)
    n, has_gpus = np.exp(rng.uniform(2, 5, 120)), rng.random(120) < 0.5
    seconds = n**1.5 * np.where(has_gpus, 1.0, 4.0) * np.exp(rng.normal(0, 0.03, 120))
    runs = pa.table({
        "n": n, "gpus": pa.array([2.0 if one else None for one in has_gpus], pa.float64()),
        "cpu": pa.array([None if one else "epyc" for one in has_gpus], pa.string()), "time_s": seconds,
    })  # fmt: skip
    declaration = Declaration((*NUMBER.inputs, Input("gpus", InputType.LOG_NUMBER), Input("cpu", InputType.CATEGORY)))
    model = learnt(runs, declaration)
    assert (model.report.kept.rows, model.report.set_aside) == (120, {})
    assert len(model.report.notes) == 1 and "gpus in " in model.report.notes[0]
    point = {"n": [50.0] * 3, "gpus": [2.0, None, 3.0], "cpu": [None, "epyc", None]}
    answers = predict(model, pa.table(point | {"gpus": pa.array(point["gpus"], pa.float64())}))
    assert answers.column("status").to_pylist() == ["ok", "ok", "refused_outside"]
    fast, slow = answers.column("median_s").to_pylist()[:2]
    assert slow / fast == pytest.approx(4.0, rel=0.1)
    no_n = predict(model, pa.table({"n": pa.array([None], pa.float64()), "gpus": [2.0], "cpu": [None]}))
    assert no_n.column("status").to_pylist() == ["missing_input"]


def test_derived_inputs_help_where_the_inputs_meet_in_them() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.integers(1, 20, 300).astype(float), rng.integers(1, 20, 300).astype(float)
    runs = pa.table({"a": a, "b": b, "time_s": np.ceil(np.log2(a + b)) ** 3})
    plain = Declaration(inputs=tuple(Input(name=one, type=InputType.LOG_NUMBER) for one in "ab"))
    derived = replace(plain, derived=(DerivedInput(name="levels", formula="ceil(log2(a+b))"),))
    first, second = (learnt(runs.slice(0, 80), one).error.mean_pct for one in (plain, derived))
    assert second < 0.2 * first


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"target": "tine_s"}, "did you mean time_s"),
        ({"inputs": (Input(name="solver", type=InputType.NUMBER),)}, "solver: found texts, expected numbers"),
        ({"inputs": (Input(name="solver", type=InputType.BOOLEAN),)}, "expected true, false"),
        ({"derived": (DerivedInput(name="d", formula="n*q"),)}, "no q"),
        ({"derived": (DerivedInput(name="d", formula="n*solver"),)}, "which is a category"),
    ],
)
def test_a_wrong_declaration_is_one_sentence(change: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        learnt(solver_runs(20), replace(SIZES, **change))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"n": [1.0] * 20, "time_s": [1.0] * 20}, "distinct combinations|the same values in all runs"),
        ({"n": [1.0, 2.0], "time_s": [1.0, 2.0]}, "at least 10"),
    ],
)
def test_too_little_to_learn_from_is_one_sentence(columns: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        learn(pa.table(columns), NUMBER, LearnRules())


def test_types_are_inferred_from_values() -> None:
    runs = pa.table({"n": [1, 5], "z": [0, 7], "t": [-1.0, 2.0], "on": [0, 1], "b": [True, False], "c": ["x", "y"]})
    found = {one.name: one.type.value for one in inferred_inputs(runs, runs.column_names)}
    assert found == {
        "n": "log_number", "z": "log_number", "t": "number", "on": "boolean", "b": "boolean", "c": "category"
    }  # fmt: skip


def test_a_category_of_many_values_has_few_columns_and_knows_them_all() -> None:
    runs = pa.table({"user": [f"u{k % 90}" for k in range(200)], "n": [1.0, 2.0] * 100, "time_s": [1.0, 3.0] * 100})
    model = learnt(runs, Declaration(inputs=(Input(name="user", type=InputType.CATEGORY), *NUMBER.inputs)), method="gp")
    assert model.arrays["x"].shape == (1, 200, 51)
    points = pa.table({"user": ["u89", "u90"], "n": [1.0, 1.0]})
    assert predict(model, points).column("status").to_pylist() == ["ok", "refused_category"]


def inferred(runs: pa.Table) -> Declaration:
    return Declaration(inferred_inputs(runs, ["n", "solver", "sweeps", "procs"]), procs="procs")


def as_declared(runs: pa.Table) -> Declaration:
    """The same types, declared by the caller."""
    return replace(inferred(runs), inputs=tuple(replace(one, is_inferred=False) for one in inferred(runs).inputs))


def named(runs: pa.Table) -> pa.Table:
    return runs.set_column(1, "solver", runs.column("solver").cast(pa.string()))


def test_whole_numbers_that_are_codes_become_categories_and_counts_stay_numbers() -> None:
    runs = solver_codes(150)
    model = learnt(runs, inferred(runs))
    types = {one.name: one.type.value for one in model.declaration.inputs}
    assert types == {"n": "log_number", "solver": "category", "sweeps": "log_number", "procs": "log_number"}
    assert any("categories" in note and "solver" in note for note in model.report.notes)
    point = {"n": [100.0] * 2, "solver": [1, 7], "sweeps": [2] * 2, "procs": [4] * 2}
    assert predict(model, pa.table(point)).column("status").to_pylist() == ["ok", "refused_category"]


def test_codes_are_learnt_to_the_digit_as_their_names_are() -> None:
    runs, later = solver_codes(150), solver_codes(300, seed=1)
    codes, names, numbers = (
        predict(learnt(some, declared), points)
        for some, declared, points in (
            (runs, inferred(runs), later), (named(runs), inferred(named(runs)), named(later)),
            (runs, as_declared(runs), later),
        )
    )  # fmt: skip
    assert codes.equals(names)
    truth_s = later.column("time_s").to_numpy()
    errors = [np.nanmean(np.abs(one.column("median_s").to_numpy() / truth_s - 1)) for one in (codes, numbers)]
    assert errors[0] < 0.8 * errors[1]


def test_a_type_that_the_caller_declares_stays() -> None:
    runs = solver_codes(150)
    assert learnt(runs, as_declared(runs)).declaration == as_declared(runs)
