"""Both estimators work with scikit-learn's tools: clones, parameters, splits by time, scores and its own checks."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, TimeSeriesSplit, cross_val_score
from sklearn.utils import estimator_checks

import walltime as wt
from tests.architecture.sample_tables import LOG

pytestmark = pytest.mark.filterwarnings("ignore::walltime.UnreadableLinesWarning")
RUNS = pd.DataFrame({"procs": [1, 2, 4, 8, 16], "runtime_s": [100.0, 54.0, 31.0, 20.0, 15.0]}, index=list("abcde"))

FITTING = (
    "check_do_not_raise_errors_in_init_or_set_params",
    "check_estimator_cloneable",
    "check_estimator_repr",
    "check_estimator_tags_renamed",
    "check_get_params_invariance",
    "check_no_attributes_set_in_init",
    "check_parameters_default_constructible",
    "check_set_params",
    "check_valid_tag_types",
)
"""Checks of scikit-learn that fit. The others fit to draws of real numbers in several columns, which are no processor
counts and no jobs of a log."""


@pytest.mark.parametrize("check", FITTING)
@pytest.mark.parametrize("estimator", [wt.ScalingModel(), wt.JobEstimator()])
def test_checks_of_scikit_learn(estimator: Any, check: str) -> None:
    getattr(estimator_checks, check)(type(estimator).__name__, clone(estimator))


@pytest.mark.parametrize("make", [wt.ScalingModel, wt.JobEstimator])
def test_an_unfitted_estimator_is_shown_and_cannot_predict(make: Callable[[], Any]) -> None:
    assert repr(make()) == f"{make.__name__}()"
    with pytest.raises(wt.WalltimeError, match="expected a call of fit before"):
        make().predict([2] if make is wt.ScalingModel else RUNS)
    with pytest.raises(wt.WalltimeError, match="no parameter bye"):
        make().set_params(bye=1)


def test_parameters_are_set_and_cloned_without_what_was_learnt() -> None:
    model = wt.ScalingModel(by=["code"], loss="log").fit(RUNS.assign(code="cg"))
    other = clone(model).set_params(max_procs=64)
    assert repr(other) == "ScalingModel(by=['code'], loss='log', max_procs=64)"
    assert not hasattr(other, "tables_") and model.get_params()["max_procs"] is None


def test_x_and_y_apart_give_the_same_model_and_keep_the_index() -> None:
    model, whole = wt.ScalingModel().fit(RUNS[["procs"]], RUNS["runtime_s"]), wt.ScalingModel().fit(RUNS)
    found = model.predict(RUNS[["procs"]], levels=[80, 50], quantiles=[0.5, 0.25, 0.9])
    assert list(found.index) == list("abcde") and list(found)[:2] == ["procs", "runtime_s_q50"]
    assert found["runtime_s_q90"].tolist() == found["runtime_s_hi80"].tolist()
    assert (found["runtime_s_lo80"] < found["runtime_s_lo50"]).all()
    np.testing.assert_allclose(found["runtime_s_q25"], found["runtime_s_lo50"])
    assert found["runtime_s_q50"].tolist() == whole.predict(RUNS["procs"].tolist())["runtime_s"].tolist()
    array = wt.ScalingModel().fit(RUNS[["procs"]].to_numpy(), RUNS["runtime_s"].to_numpy())
    assert array.predict([[2], [4]]).tolist() == found["runtime_s_q50"].tolist()[1:3]
    assert model.score(RUNS[["procs"]], RUNS["runtime_s"]) == whole.score(RUNS) > 0.99
    with pytest.raises(wt.WalltimeError, match=r"levels with 99, expected per cent, above 1 and up to 95"):
        model.predict(RUNS[["procs"]], levels=[99])


def test_a_row_of_another_series_has_no_answer() -> None:
    model = wt.fit(RUNS.assign(application="cg"))
    asked = pd.DataFrame({"application": ["cg", "other"], "procs": [2, 2]})
    assert model.predict(asked)["runtime_s_q50"].isna().tolist() == [False, True]


def test_a_weight_is_a_number_of_equal_runs() -> None:
    repeated = pd.concat([RUNS, RUNS.tail(1)])
    weighted = wt.ScalingModel().fit(RUNS, sample_weight=[1, 1, 1, 1, 2])
    pd.testing.assert_frame_equal(weighted.fits, wt.fit(repeated).fits)
    assert len(wt.ScalingModel().fit(RUNS, sample_weight=[1, 1, 1, 1, 0]).observations) == 4
    with pytest.raises(wt.WalltimeError, match="numbers of equal runs"):
        wt.ScalingModel().fit(RUNS, sample_weight=[1, 1, 1, 1, 0.5])


def test_advice_is_a_frame() -> None:
    found = wt.fit(RUNS, max_procs=32).advise(rate=0.5)
    assert set(found["group_id"]) == {"runs"} and found["why"].str.contains("fastest").any()
    np.testing.assert_allclose(found["price"], found["proc_hours"] / 2)


def test_a_grid_is_searched() -> None:
    rows = pd.concat([RUNS.assign(runtime_s=RUNS["runtime_s"] * factor) for factor in (1.0, 1.02, 0.98)])
    search = GridSearchCV(wt.ScalingModel(), {"loss": ["log", "relative"]}, cv=3)
    assert search.fit(rows[["procs"]], rows["runtime_s"]).best_score_ > 0.9


def test_a_split_in_order_of_submit_is_scored() -> None:
    log = wt.clean(wt.read(LOG, site="traps"))
    log = log[log["flag"].isna()].sort_values("submit_s").reset_index(drop=True)
    scores = cross_val_score(wt.JobEstimator(), log, log["runtime_s"], cv=TimeSeriesSplit(2))
    assert np.isfinite(scores).all()
    half = len(log) // 2
    model, later = wt.JobEstimator().fit(log[:half]), log[half:]
    found = model.predict(later[["user", "procs", "requested_s", "submit_s"]], levels=[80])
    assert list(found.index) == list(later.index)
    # Nothing that ended after the first of these submits is used.
    is_known = ~(log[:half]["end_s"] > later["submit_s"].min())
    assert not is_known.all()
    unknown = log[:half].assign(runtime_s=lambda jobs: jobs["runtime_s"].where(is_known, jobs["runtime_s"] + 7))
    unknown = unknown.assign(end_s=lambda jobs: jobs["end_s"].where(is_known, jobs["end_s"] + 7))
    again = wt.JobEstimator().fit(unknown).predict(later[["user", "procs", "requested_s", "submit_s"]], levels=[80])
    pd.testing.assert_frame_equal(found, again)


def test_a_method_of_ones_own_is_scored_and_sees_no_later_event() -> None:
    log, days = wt.read(LOG, site="traps"), []

    def mean_of_user(known: pd.DataFrame, new: pd.DataFrame) -> pd.Series:
        begin_s = new["submit_s"].min() // 86_400 * 86_400
        assert (known["end_s"].fillna(0) <= begin_s).all() and "runtime_s" not in new
        days.append(begin_s)
        return new["user"].map(known.groupby("user")["runtime_s"].mean())

    found = wt.backtest(log, methods=["last_two", mean_of_user])
    assert set(found["estimator"]) == {"last_two", "mean_of_user"} and days == sorted(set(days))
    assert len(set(found.loc[found["part"] == "all", "n_jobs"])) == 1
    with pytest.raises(wt.WalltimeError, match=r"an answer of shape \(1,\)"):
        wt.backtest(log, methods=lambda known, new: [1.0] if len(new) > 1 else [2.0])


def test_two_methods_of_one_name_are_refused() -> None:
    with pytest.raises(wt.WalltimeError, match="two methods of the name <lambda>"):
        wt.backtest(
            wt.read(LOG, site="traps"), methods=[lambda _, new: [1.0] * len(new), lambda _, new: [2.0] * len(new)]
        )


def test_a_level_below_one_per_cent_and_a_method_that_is_none_are_refused() -> None:
    model = wt.ScalingModel().fit(RUNS)
    with pytest.raises(
        wt.WalltimeError, match=r"levels with 0.8, expected per cent, above 1 and up to 95, as in levels=\[80\]"
    ):
        model.predict(RUNS[["procs"]], levels=[0.8])
    assert "runtime_s_q25" in model.predict(RUNS[["procs"]], quantiles=0.25).columns
    with pytest.raises(wt.WalltimeError, match="no method 5, expected one of"):
        wt.backtest(wt.read(LOG, site="oxbow"), methods=["request", 5])
