"""The functions give what the stages give, in the user's order of rows."""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import walltime as wt
from flows.services.series_files import read_runs
from pipeline.scaling.fitted_series import fit_and_predict
from pipeline.tables import PREDICTIONS
from tests.architecture.sample_tables import LOG, namespace

pytestmark = pytest.mark.filterwarnings("ignore::walltime.UnreadableLinesWarning")

RUNS = pd.DataFrame({"application": "cg", "procs": [1, 2, 4, 8, 16], "runtime_s": [100.0, 54.0, 31.0, 20.0, 15.0]})


def test_reading_and_cleaning_give_the_tables_of_a_run() -> None:
    read = wt.read(LOG, site="traps", frame="arrow")
    stages = namespace()["tables"]
    assert read.to_pylist() == stages["jobs_read"].to_pylist()
    assert wt.clean(read, site="traps").to_pylist() == stages["jobs_flagged"].to_pylist()


def test_unreadable_lines_are_a_warning() -> None:
    with pytest.warns(wt.UnreadableLinesWarning, match="5 lines could not be read"):
        wt.read(LOG)


def test_flags_do_not_depend_on_the_order_of_rows_and_further_columns_stay() -> None:
    jobs = wt.read(LOG, site="traps").assign(colour="red")
    shuffled = jobs.sample(frac=1, random_state=np.random.default_rng(1)).reset_index(drop=True)
    found = wt.clean(shuffled)
    assert found["job_id"].tolist() == shuffled["job_id"].tolist()
    assert set(found["colour"]) == {"red"}
    keys = ["job_id", "restart"]
    expected = wt.clean(jobs).set_index(keys)["flag"].sort_index()
    pd.testing.assert_series_equal(found.set_index(keys)["flag"].sort_index(), expected)


def test_predictions_are_those_of_fit_series(tmp_path: Path) -> None:
    RUNS.to_csv(tmp_path / "runs.csv", index=False)
    expected = fit_and_predict(read_runs(tmp_path / "runs.csv")[0], [32, 64], None)[PREDICTIONS.name]
    found = wt.predict(wt.fit(RUNS), procs=[64, 32, 64])
    assert found["procs"].tolist() == [32, 64]
    assert found["runtime_s"].tolist() == expected.column("runtime_s").to_pylist()
    pd.testing.assert_frame_equal(found, wt.predict(RUNS, procs=[32, 64]))
    pd.testing.assert_frame_equal(found, wt.predict(wt.observe(RUNS), procs=[32, 64]))


@pytest.mark.parametrize("procs", [[], [0], [1.5], [True]])
def test_wrong_counts_are_refused(procs: list[int]) -> None:
    with pytest.raises(wt.WalltimeError, match="predict: found"):
        wt.predict(wt.fit(RUNS.head(2)), procs=procs)


def test_a_model_shows_its_laws_and_escapes_names() -> None:
    shown = repr(wt.fit(RUNS.assign(application="a\x1b[31m")))
    assert "\x1b" not in shown and shown.startswith("ScalingModel of 1 series, 1 with a chosen law\n  application=a")


def test_estimates_keep_the_order_of_rows() -> None:
    log = wt.read(LOG, site="traps")
    newest_s = float(log[["submit_s", "start_s", "end_s"]].max().max())
    asked = {"user": ["1", "nobody"], "requested_s": [60.0, 600.0], "submit_s": [newest_s + 9, newest_s + 1]}
    found = wt.estimate(log, pd.DataFrame(asked))
    alone = wt.estimate(log, pd.DataFrame({name: values[:1] for name, values in asked.items()}))
    assert found.loc[0, "runtime_s_q50"] == alone.loc[0, "runtime_s_q50"] <= 60.0
    assert found.loc[1, "runtime_s_q50"] <= 600.0
    with pytest.raises(wt.WalltimeError, match="none before the first end of a job of the log"):
        wt.estimate(log, pd.DataFrame({"user": ["1"], "submit_s": [0]}))


def test_an_estimator_is_fitted_once_and_answers_as_the_function() -> None:
    log, asked = wt.read(LOG, site="traps"), pd.DataFrame({"user": ["1", "2"], "requested_s": [60.0, 600.0]})
    model = wt.JobEstimator()
    with pytest.raises(wt.WalltimeError, match="a call of fit before"):
        model.predict(asked)
    found = model.fit(log).predict(asked, levels=[80, 95])
    names = ["runtime_s_q50", "runtime_s_lo80", "runtime_s_hi80", "runtime_s_lo95", "runtime_s_hi95"]
    assert list(found) == [*asked, *names]
    once = wt.estimate(log, asked)
    assert found["runtime_s_q50"].tolist() == once["runtime_s_q50"].tolist()
    assert found["runtime_s_hi80"].tolist() == once["runtime_s_q90"].tolist()
    assert (found["runtime_s_lo95"] <= found["runtime_s_lo80"]).all()
    assert list(model.predict(pa.Table.from_pandas(asked)).column_names) == [*asked, "runtime_s_q50"]
    later = log.assign(submit_s=log["end_s"].max() + 1)
    assert -1 < model.score(later) < 1
    with pytest.raises(wt.WalltimeError, match="levels with 99, expected per cent, above 1 and up to 95"):
        model.predict(asked, levels=[99])


def test_a_scaling_model_scores() -> None:
    model = wt.ScalingModel().fit(RUNS)
    pd.testing.assert_frame_equal(model.predict([32]), wt.predict(RUNS, procs=[32]))
    assert model.score(RUNS) > 0.99 > model.score(RUNS.assign(runtime_s=RUNS["runtime_s"].iloc[::-1].to_numpy()))
    with pytest.raises(wt.WalltimeError, match="a call of fit before"):
        wt.ScalingModel().predict([2])


def test_a_replay_without_a_machine_is_refused() -> None:
    with pytest.raises(wt.WalltimeError, match="no size of the machine"):
        wt.replay(wt.read(LOG), shakes=0)


def test_starts_and_times_left_use_nothing_later_than_the_question() -> None:
    log = wt.clean(wt.read(LOG, site="oxbow"))
    longest = log.loc[log["runtime_s"].idxmax()]
    at_s = float(longest["start_s"] + longest["runtime_s"] / 2)
    found = wt.when(log, at_s)
    assert len(found) and (found["elapsed_s"] >= 0).all()
    shares = [f"left_s_q{share}" for share in (10, 50, 80, 95)]
    assert (found[shares].dropna().diff(axis=1).iloc[:, 1:] >= 0).all(axis=None)
    later, is_later = log.copy(), (log["end_s"] > at_s).fillna(False)
    later.loc[is_later, ["end_s", "runtime_s"]] += 5000
    pd.testing.assert_frame_equal(found, wt.when(later, at_s))


def test_models_over_inputs_answer_and_suggest_as_the_library() -> None:
    runs = pd.DataFrame({"n": range(1, 31), "solver": ["cg", "none"] * 15, "cores": 4})
    runs["seconds"] = 0.5 * runs["n"] ** 2 * np.where(runs["solver"] == "cg", 1.0, 3.0)
    model = wt.learn(runs, ["n", "solver"], target="seconds", procs="cores", types={"n": "log_number"})
    found = wt.ask(model, pa.Table.from_pandas(runs[["n", "solver"]]))
    assert isinstance(found, pa.Table)
    assert found.column("median_s").to_numpy() == pytest.approx(runs["seconds"], rel=0.1)
    ordered = wt.suggest(model, runs, budget=1e5, n_runs=3)
    assert ordered["order"].tolist() == [1, 2, 3]
    with pytest.raises(wt.WalltimeError, match="no unit hours"):
        wt.suggest(model, runs, unit="hours")
