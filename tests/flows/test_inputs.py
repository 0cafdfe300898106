"""`walltime inputs learn`, `predict` and `suggest`: what they print and write, and the sentences of their errors."""

import csv
import json
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest

from flows.services.input_models import column_of_cells
from tests.flows.support import Outcome
from tests.unit.inputs.simulated_runs import solver_codes

Walltime = Callable[..., Outcome]
GRID = tuple(product((100, 200, 400, 800), (1, 2, 4), (1, 2, 4)))


def runtime_s(n: int, p: int, q: int, kind: str) -> float:
    """A known law, exact to the digit."""
    return (2.0 if kind == "slow" else 1.0) * (0.5 + 1e-6 * n**2 / (p * q))


def rows() -> list[list[object]]:
    """Four of five combinations, and one run of unknown runtime."""
    found: list[list[object]] = [["n", "p", "q", "kind", "day", "time_s"]]
    for day, kind in enumerate(("fast", "slow")):
        made = [one for place, one in enumerate(GRID) if (place + 2 * day) % 5]
        found += [[n, p, q, kind, day + place % 2, runtime_s(n, p, q, kind)] for place, (n, p, q) in enumerate(made)]
    return [*found, [100, 1, 1, "fast", 0, ""]]


def written(path: Path, lines: list[list[object]]) -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(lines)
    return path


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("runs") / "runs.csv", rows())


@pytest.fixture(scope="module")
def folder(runs: Path) -> Path:
    """A model of the runs, learnt with the services that the command calls."""
    from flows.services.input_models import learn_from_csv
    from pipeline.inputs import LearnRules

    said = {"target": "time_s", "named": "n,p,q,kind", "derived": ("p*q",), "procs": "p*q"}
    learn_from_csv(runs, LearnRules(folds=3), runs.parent / "model", **said)
    return runs.parent / "model"


def test_learn_states_the_error_the_types_and_what_it_set_aside(walltime: Walltime, runs: Path, tmp_path: Path) -> None:
    done = walltime(
        "inputs", "learn", runs, "--inputs", "n,p,q,kind", "--method", "gp", "--out", tmp_path / "m", "--json"
    )
    found = json.loads(done.out)
    assert (done.code, found["method"], found["error"]["n_runs"]) == (0, "gp", len(rows()) - 2)
    assert {one["name"]: one["type"] for one in found["inputs"]} == {
        "n": "log_number", "p": "log_number", "q": "log_number", "kind": "category"}  # fmt: skip
    assert found["set_aside"] == {"no_target": 1}
    assert sorted(path.name for path in (tmp_path / "m").iterdir()) == [
        "arrays.parquet", "model.json", "runs.parquet"]  # fmt: skip


def test_codes_become_categories_unless_a_type_is_given_or_the_processors_are_counted_with_them(
    walltime: Walltime, tmp_path: Path
) -> None:
    given, model = tmp_path / "runs.csv", tmp_path / "m"
    solver_codes(150).to_pandas().to_csv(given, index=False)

    def kind_of_solver(*options: str) -> str:
        done = walltime("inputs", "learn", given, "--method", "gp", *options, "--out", model, "--json")
        return {one["name"]: one["type"] for one in json.loads(done.out)["inputs"]}["solver"]

    assert kind_of_solver("--procs", "procs") == "category"
    asked = ("--at", "n=100,solver=1,sweeps=2,procs=4", "--at", "n=100,solver=7,sweeps=2,procs=4")
    answers = json.loads(walltime("inputs", "predict", model, *asked, "--json").out)["answers"]
    assert [one["status"] for one in answers] == ["ok", "refused_category"]
    assert kind_of_solver("--type", "solver=log_number") == "log_number"
    assert kind_of_solver("--procs", "solver*procs") == "log_number"


def test_runs_in_another_order_give_the_same_files(walltime: Walltime, tmp_path: Path) -> None:
    table = rows()
    orders = {"a": table, "b": [table[0], *reversed(table[1:])]}
    for name, lines in orders.items():
        given = written(tmp_path / f"{name}.csv", lines)
        assert (
            walltime("inputs", "learn", given, "--method", "gp", "--batch", "day", "--out", tmp_path / name).code == 0
        )
    for file in ("model.json", "arrays.parquet", "runs.parquet"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


def test_ask_answers_a_point_that_did_not_run_and_refuses_another_kind(walltime: Walltime, folder: Path) -> None:
    done = walltime(
        "inputs", "predict", folder, "--at", "n=600,p=2,q=2,kind=slow", "--at", "n=600,p=2,q=2,kind=other", "--json"
    )
    good, refused = json.loads(done.out)["answers"]
    assert good["status"] == "ok"
    assert good["median_s"] == pytest.approx(runtime_s(600, 2, 2, "slow"), rel=0.05)
    assert good["low95_s"] <= good["low80_s"] <= good["median_s"] <= good["high80_s"] <= good["high95_s"]
    assert refused["inputs"] == {"n": 600, "p": 2, "q": 2, "kind": "other"}
    assert (refused["status"], refused["median_s"]) == ("refused_category", None)
    assert "other" in refused["reason"]


@pytest.mark.parametrize(("kinds", "code"), [(("slow", "other"), 0), (("other", "others"), 3)])
def test_only_a_call_without_any_answer_ends_with_a_code(
    walltime: Walltime, folder: Path, tmp_path: Path, kinds: tuple[str, str], code: int
) -> None:
    points = [word for kind in kinds for word in ("--at", f"n=600,p=2,q=2,kind={kind}")]
    out = tmp_path / "answers.csv"
    done = walltime("inputs", "predict", folder, *points, "--out", out)
    assert (done.code, done.err) == (code, "")
    assert "refused_category" in done.out and len(list(csv.DictReader(out.open()))) == 2


def test_a_file_of_points_is_answered_in_its_order(walltime: Walltime, folder: Path, tmp_path: Path) -> None:
    points = written(tmp_path / "points.csv", [["kind", "q", "p", "n"], ["fast", 4, 4, 800], ["fast", 1, 1, 100]])
    out = tmp_path / "answers.csv"
    done = walltime("inputs", "predict", folder, "--points", points, "--out", out)
    assert done.code == 0
    assert "n=800 p=4 q=4 kind=fast" in done.out
    assert [row["point"] for row in csv.DictReader(out.open())] == ["0", "1"]


def test_suggest_stays_within_the_budget_and_names_no_run_that_was_made(walltime: Walltime, folder: Path) -> None:
    found = json.loads(walltime("inputs", "suggest", folder, "--budget", "12", "--unit", "proc-seconds", "--json").out)
    made = {tuple(row[:4]) for row in rows()[1:]}
    runs = [one["inputs"] for one in found["runs"]]
    assert runs
    assert found["runs"][-1]["total_cost"] <= 12
    assert not made & {(one["n"], one["p"], one["q"], one["kind"]) for one in runs}
    # The price counts processors: p*q was given as their formula.
    for one in found["runs"]:
        cores = one["inputs"]["p"] * one["inputs"]["q"]
        assert one["cost"] == pytest.approx(one["median_s"] * cores, rel=1e-4)


def test_where_the_model_refuses_every_candidate_that_is_said(walltime: Walltime, folder: Path, tmp_path: Path) -> None:
    given = written(tmp_path / "c.csv", [["n", "p", "q", "kind"], [300, 2, 2, "other"]])
    done = walltime("inputs", "suggest", folder, "--candidates", given)
    assert (done.code, "No candidate of 1 can be predicted within the budget." in done.out) == (0, True)


def test_a_full_grid_leaves_nothing_to_suggest_and_is_no_error(walltime: Walltime, tmp_path: Path) -> None:
    runs = tmp_path / "grid.csv"
    runs.write_text("n,m,time_s\n" + "".join(f"{n},{m},{n * m}\n" for n in (1, 2, 4, 8) for m in (1, 2, 4, 8)))
    assert walltime("inputs", "learn", runs, "--out", tmp_path / "model").code == 0
    done = walltime("inputs", "suggest", tmp_path / "model", "--unit", "runs")
    assert done.code == 0
    assert "Every combination of the values that the inputs had has run" in done.out
    assert json.loads(walltime("inputs", "suggest", tmp_path / "model", "--unit", "runs", "--json").out)["runs"] == []


def test_suggest_takes_candidates_from_a_file(walltime: Walltime, folder: Path, tmp_path: Path) -> None:
    given = written(tmp_path / "c.csv", [["n", "p", "q", "kind"], [300, 2, 2, "fast"], [500, 1, 2, "slow"]])
    found = json.loads(walltime("inputs", "suggest", folder, "--candidates", given, "--unit", "runs", "--json").out)
    assert found["n_candidates"] == 2
    assert sorted(one["candidate"] for one in found["runs"]) == [0, 1]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--target", "tine_s"), "--target tine_s: found no such column, expected one of n, p"),
        (("--inputs", "n,pp"), "--inputs pp: found no such column"),
        (("--type", "n=lognumber"), "did you mean log_number?"),
        (("--type", "m=number"), "found no input m"),
        (("--derive", "p*kind"), "kind, which is a category, expected inputs that are numbers"),
        (("--procs", "p*z"), "processors p*z: found no column z"),
        (("--inputs", "n,time_s"), "the target time_s among the inputs"),
    ],
)
def test_a_wrong_option_of_learn_is_one_sentence(
    walltime: Walltime, runs: Path, tmp_path: Path, arguments: tuple[str, ...], sentence: str
) -> None:
    done = walltime("inputs", "learn", runs, *arguments, "--out", tmp_path / "m")
    assert done.code == 2
    assert sentence in done.err
    assert done.err.count("\n") == 1
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize(
    ("at", "sentence"),
    [
        ("n=600,p=2,q=2", "found no kind, expected a value of each of n, p, q, kind"),
        ("n=600,p=2,q=2,kid=slow", "did you mean kind?"),
        ("n=big,p=2,q=2,kind=slow", "found n = big, expected a number"),
        ("n=1,n=2,p=2,q=2,kind=slow", "found n twice"),
        ("n", "expected NAME=VALUE, joined by commas"),
    ],
)
def test_a_wrong_point_is_one_sentence(walltime: Walltime, folder: Path, at: str, sentence: str) -> None:
    done = walltime("inputs", "predict", folder, "--at", at)
    assert (done.code, sentence in done.err, done.out) == (2, True, "")


def test_a_folder_without_a_model_and_a_ragged_file_are_one_sentence(walltime: Walltime, tmp_path: Path) -> None:
    assert "run walltime inputs learn first" in walltime("inputs", "predict", tmp_path, "--at", "n=1").err
    ragged = written(tmp_path / "r.csv", [["n", "time_s"], [1, 2, 3]])
    done = walltime("inputs", "learn", ragged, "--out", tmp_path / "m")
    assert "line 2: found 3 values, expected 2" in done.err


def test_names_and_values_with_control_characters_reach_no_terminal(walltime: Walltime, tmp_path: Path) -> None:
    head: list[list[object]] = [["n", "[red]k\x1b[31m", "time_s"]]
    given = written(tmp_path / "h.csv", head + [[n, f"=a{n % 2}\x1b[2J", 2.0 * n] for n in range(1, 21)])
    done = walltime("inputs", "learn", given, "--method", "gp", "--out", tmp_path / "m")
    assert done.code == 0
    assert "\x1b" not in done.out
    assert "[red]k" in done.out


def test_cells_are_numbers_only_where_all_known_ones_are() -> None:
    assert column_of_cells(["1", "", "2.5e3"]).to_pylist() == [1.0, None, 2500.0]
    assert column_of_cells(["1", "2_0"]).to_pylist() == ["1", "2_0"]
    assert column_of_cells(["inf", "1"]).to_pylist() == ["inf", "1"]
    assert column_of_cells(["none", "1", "NA"]).to_pylist() == [None, 1.0, None]
    assert column_of_cells(["none", "jacobi", ""]).to_pylist() == ["none", "jacobi", None]


def test_a_file_whose_columns_all_have_gaps_is_learnt_from_with_one_sentence(
    walltime: Walltime, tmp_path: Path
) -> None:
    lines: list[list[object]] = [["n", "preconditioner", "gpus", "time_s"]]
    for place in range(90):
        n, kind = 100 + 10 * (place % 45), ("none", "jacobi", "")[place % 3]
        cells = ["NA" if place % 7 == 0 else n, kind, "" if place % 2 else 4]
        lines.append([*cells, n**1.5 * (1 + place % 3) * (3 if place % 2 else 1)])
    given, model = written(tmp_path / "gaps.csv", lines), tmp_path / "m"
    done = walltime("inputs", "learn", given, "--out", model, "--method", "gp")
    assert done.code == 0
    said = " ".join(done.out.split())
    assert "Of 90 runs some do not know an input (n in 13, preconditioner in 30, gpus in 45): unknown is" in said
    asked = ("--at", "n=200,preconditioner=none,gpus=4", "--at", "n=200,preconditioner=,gpus=")
    answers = json.loads(walltime("inputs", "predict", model, *asked, "--json").out)["answers"]
    assert [one["status"] for one in answers] == ["ok", "ok"]
