"""Models over inputs of a log: extraction, no look-ahead, publication only of winners, answers as in the backtest."""

import json
import time
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pytest

from pipeline.arrays import Floats
from pipeline.errors import ConfigError
from pipeline.estimate.history import History, history
from pipeline.estimate.state import walltime
from pipeline.evaluate import check_no_look_ahead
from pipeline.ingest import ingest
from pipeline.ingest.derive import inputs_column
from pipeline.inputs.log_models import (
    CHANCE,
    LEAST_SCORED,
    Question,
    answer_questions,
    application_models,
    as_of_quantiles,
    publish_models,
    quantiles_of,
    standard_errors_needed,
)
from pipeline.run import submitted_runs
from pipeline.settings import RunSettings, parse_settings
from pipeline.storage import read_table, write_table
from pipeline.tables import INPUT_MODELS
from tools.simulation.named_inputs import law_s, named_inputs_log

RULE = {"find": r"[a-z]+_n(?P<n>[0-9]{1,9})_step(?P<steps>[0-9]{1,9})"}
PLAIN = {"inputs": {"rules": [RULE]}}
SETTINGS = parse_settings(PLAIN, "test")


@cache
def sample(n_jobs: int = 450, seed: int = 3) -> pa.Table:
    """JOBS of a simulated dump."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "sacct.txt"
        path.write_text(named_inputs_log(n_jobs, seed))
        return ingest([path], SETTINGS.site, SETTINGS.ingest)[0]


def past(n_jobs: int = 450, seed: int = 3) -> History:
    return history(sample(n_jobs, seed))


@cache
def published() -> pa.Table:
    """INPUT_MODELS of the sample."""
    return publish_models(submitted_runs(past()), SETTINGS.inputs, "here", "r")[0]


def test_inputs_are_read_from_names_and_nothing_is_read_elsewhere() -> None:
    rows = sample().select(["job_name", "inputs", "application"]).to_pylist()
    for row in rows:
        if row["job_name"] == "shell":
            assert row["inputs"] is None
            continue
        application, n, steps = row["job_name"].split("_")
        assert json.loads(row["inputs"]) == {"n": n[1:], "steps": steps[4:]}
        assert row["application"] == application
    assert sum(row["inputs"] is None for row in rows) in range(90, 180)


def test_the_first_rule_wins_the_whole_text_has_to_match_and_personal_texts_are_left_out() -> None:
    rules = parse_settings(
        {"inputs": {"rules": [{"find": "a(?P<n>[0-9]+)"}, {"text": "comment", "find": ".*k=(?P<k>[^ ]+).*"}]}}, "x"
    ).inputs.rules
    table = pa.table({"job_name": ["a1", "xa1", "a1\n", None], "comment": ["k=2", "to k=bob too", "k=3", None]})
    assert inputs_column(table, rules).to_pylist() == ['{"n":"1"}', '{"k":"bob"}', '{"k":"3"}', None]  # type: ignore[union-attr]
    plain = inputs_column(table, rules, only_numbers=True)
    assert plain.to_pylist() == ['{"n":"1"}', None, '{"k":"3"}', None]  # type: ignore[union-attr]
    assert inputs_column(pa.table({"queue": ["x"]}), rules) is None


@pytest.mark.parametrize(
    ("find", "sentence"),
    [
        (r"(?P<n>a)\1", "invalid escape sequence"),
        ("(?=a)(?P<n>b)", "invalid perl operator"),
        ("(a)(?P<n>b)", "unnamed groups"),
        ("a+", "found no named group"),
        ("(?P<n>a)" + "b" * 500, "at most 500 characters"),
        ("(?P<n>(", "missing )"),
    ],
)
def test_a_pattern_without_a_linear_bound_is_a_config_error(find: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=r"inputs\.rules\.0\.find") as caught:
        parse_settings({"inputs": {"rules": [{"find": find}]}}, "x")
    assert sentence in str(caught.value)


def test_a_hostile_name_takes_no_time() -> None:
    """Python's `re` would need 2^4000 steps for the same pattern and text."""
    rules = parse_settings({"inputs": {"rules": [{"find": "(?P<n>(?:a+)+)b"}]}}, "x").inputs.rules
    began = time.process_time()
    found = inputs_column(pa.table({"job_name": ["a" * 10_000, "a" * 4_000 + "!"]}), rules)
    assert found.to_pylist() == [None, None]  # type: ignore[union-attr]
    assert time.process_time() - began < 1.0


def test_models_of_the_sample_halve_the_error_of_the_last_two_and_are_published() -> None:
    rows = published().to_pylist()
    assert sorted(row["application"] for row in rows) == ["heat", "lattice"]
    for row in rows:
        assert row["is_published"] and row["n_scored"] >= LEAST_SCORED
        assert row["model_mae_s"] <= 0.5 * min(row["last_two_mae_s"], row["request_mae_s"])
        assert row["model_mae_s"] < row["walltime_mae_s"]


def test_a_model_that_loses_to_the_last_two_is_not_published_and_answers_nothing() -> None:
    """Runtimes grow from job to job whatever the names say, so that the last two jobs are nearly right."""
    log = past()
    drifting = replace(log, runtime_s=60.0 * np.exp(np.arange(len(log)) / 60.0))
    runs = submitted_runs(drifting)
    found = application_models(runs, SETTINGS.inputs)
    assert found and not any(one.is_published for one in found)
    assert all(one.rivalry["n_scored"] >= LEAST_SCORED for one in found)
    assert not any(one.is_used.any() for one in found)
    models, _ = publish_models(runs, SETTINGS.inputs, "here", "r")
    assert models.column("model").null_count == models.num_rows == len(found)
    with TemporaryDirectory() as folder:
        path = write_table(Path(folder) / "input_models.parquet", models, INPUT_MODELS)
        assert read_table(path, INPUT_MODELS).column("model_arrays").null_count == len(found)


def test_a_model_that_loses_to_the_estimator_is_not_published_and_answers_nothing() -> None:
    """An estimator that knew each runtime is better than any model."""
    runs = submitted_runs(past())
    assert all(one.is_published for one in application_models(runs, SETTINGS.inputs))
    knowing = replace(runs, usual_s=np.where(np.isnan(runs.runtime_s), 60.0, runs.runtime_s))
    found = application_models(knowing, SETTINGS.inputs)
    assert found and not any(one.is_published or one.is_used.any() for one in found)
    assert all(one.rivalry["walltime_mae_s"] == 0.0 for one in found)


def test_the_estimator_is_computed_once_where_the_caller_has_it() -> None:
    log = past()
    given = np.arange(float(len(log)))
    assert submitted_runs(log, given).usual_s is given
    usual_s = walltime(log)[:, 1]
    np.testing.assert_array_equal(submitted_runs(log).usual_s, usual_s)


def test_jobs_that_were_all_submitted_before_the_first_ended_have_no_model() -> None:
    log = past()
    at_once = replace(log, end_s=log.submit_s[-1] + log.runtime_s)
    found = application_models(submitted_runs(at_once), SETTINGS.inputs)
    assert [one.rivalry["n_scored"] for one in found] == [0, 0]
    assert not any(one.is_published for one in found)


def test_without_rules_there_is_no_model() -> None:
    runs, without = submitted_runs(past()), RunSettings()
    assert not application_models(runs, without.inputs)
    assert np.isnan(as_of_quantiles(runs, without.inputs)).all()


def test_no_estimate_uses_what_was_not_known_at_the_submit() -> None:
    def estimates(log: History) -> Floats:
        return as_of_quantiles(submitted_runs(log), SETTINGS.inputs)

    check_no_look_ahead(estimates, past(), 3)


def test_quantiles_ascend_and_the_median_is_at_most_the_request() -> None:
    log = past()
    found = as_of_quantiles(submitted_runs(log), SETTINGS.inputs)
    answered = ~np.isnan(found[:, 1])
    assert answered.sum() > 50
    assert (np.diff(found[answered], axis=1) >= 0).all()
    assert (found[answered, 1] <= log.requested_s[answered]).all()


def test_an_interval_without_an_upper_end_ends_at_the_request_or_is_no_answer() -> None:
    ends = {"low80_s": 50.0, "median_s": 100.0, "high80_s": 200.0, "low95_s": 10.0, "high95_s": None}
    answers = pa.table({name: pa.array([value] * 3, pa.float64()) for name, value in ends.items()})
    found = quantiles_of(answers, np.array([900.0, 150.0, np.nan]))
    np.testing.assert_allclose(found[0, [0, 1, 3, 4, 5]], [50, 100, 200, 900, 900])
    np.testing.assert_allclose(found[1, [0, 1, 3, 4, 5]], [50, 100, 200, 200, 200])
    assert np.isnan(found[2]).all()


def test_published_models_answer_as_the_backtest_would_answer_the_next_job() -> None:
    """The last job of each application is asked of the tables of the log without it."""
    log = past()
    whole = as_of_quantiles(submitted_runs(log), SETTINGS.inputs)
    for application in ("heat", "lattice"):
        last = int(np.flatnonzero(log.codes["what"] == log.names["what"].index(application))[-1])
        earlier = log.known_by(float(log.submit_s[last])).take(np.arange(last))
        models, report = publish_models(submitted_runs(earlier), SETTINGS.inputs, "here", "r")
        report.check()
        inputs = json.loads(log.names["inputs"][log.codes["inputs"][last]])
        user = log.names["who"][log.codes["who"][last]]
        question = Question(application, inputs, log.procs[last], user, log.requested_s[last])
        np.testing.assert_allclose(answer_questions(models, [question], SETTINGS.inputs)[0], whole[last], rtol=1e-9)


def test_another_user_or_a_size_beyond_all_runs_is_not_answered() -> None:
    models, inputs = published(), {"n": "400", "steps": "300"}
    good = Question("heat", inputs, 4.0, "ada", np.nan)
    asked = [good, replace(good, user="eve"), replace(good, inputs={"n": "99999999", "steps": "300"}),
             replace(good, application="other")]  # fmt: skip
    found = answer_questions(models, asked, SETTINGS.inputs)
    assert found[0, 1] == pytest.approx(law_s("heat", 400, 300, 4), rel=0.3)
    assert np.isnan(found[1:]).all()


def test_a_model_without_a_gain_seldom_wins_at_any_time_and_one_with_a_gain_wins() -> None:
    rng, n = np.random.default_rng(5), np.arange(20, 1001, dtype=np.float64)
    gains = rng.laplace(0.0, 1.0, (1000, 1000))
    needed = standard_errors_needed(n, 20)

    def share_that_wins(gain: float) -> float:
        found = np.cumsum(gains + gain, axis=1)[:, 19:] / n
        spread = np.cumsum((gains + gain) ** 2, axis=1)[:, 19:] / n - found**2
        return float((found > needed * np.sqrt(spread / (n - 1))).any(axis=1).mean())

    assert share_that_wins(0.0) < CHANCE < 0.1 < share_that_wins(0.1) < share_that_wins(0.3)
    assert share_that_wins(0.3) > 0.95
