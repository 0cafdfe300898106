"""The law of a group answers where its recent error on the group's ended jobs is below the estimate's."""

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pipeline.arrays import Floats
from pipeline.columns import TEMPLATE_COLUMNS
from pipeline.estimate.history import history
from pipeline.estimate.hypotheses import spoken
from pipeline.estimate.law_curves import CURVE_ERROR, ENOUGH, ESTIMATE_ERROR, LawCurves, speaks, with_laws
from pipeline.estimate.predictions import row_questions
from pipeline.estimate.questions import questions_of
from pipeline.estimate.state import State
from pipeline.estimate.walltime import Answers, answers, estimate, learn
from tests.rows import jobs_of
from tests.unit.estimate.test_one_answer import KEEPS, SETTINGS, log

SIZES = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0])


def with_law(state: State, power: float) -> State:
    """The State with a law for its only group, at a level of its own."""
    one, log_s = (np.array([0, -1]), np.array([0, len(SIZES)])), 3.0 + power * np.log(SIZES)
    low, high = np.full(len(SIZES), 0.3), 0.1 * np.arange(1.0, len(SIZES) + 1)
    return replace(state, laws=LawCurves(*one, np.log(SIZES), log_s, low, high, np.zeros(1, np.int64)))


def asked(state: State, procs: float, more: dict[str, float] | None = None) -> Answers:
    job = {"user": "ada", "application": "solver", "procs": procs, "requested_s": 57_600.0, **(more or {})}
    return answers(state, questions_of([job], np.array([state.as_of_s]), "UTC"), SETTINGS)


def learnt(n_jobs: int = 60) -> State:
    past = log(-0.8, KEEPS, n_jobs=n_jobs)
    return learn(past, SETTINGS, float(np.max(past.end_s)))


def test_a_law_that_was_closer_answers_at_the_level_of_the_group() -> None:
    state = with_law(learnt(), -0.8)
    # The estimate's own errors are larger than they were, as in a group whose sizes keep changing.
    state = replace(state, jobs=state.jobs._replace(answered_s=1.5 * state.jobs.runtime_s))
    found = asked(state, 64.0)
    assert speaks(found.law)[0]
    assert abs(np.log(found.quantiles_s[0, 1] / (28_800.0 * 64**-0.8))) < 0.05
    (code, words) = spoken(state, questions_of([{"user": "ada", "application": "solver", "procs": 64.0}],
                                               np.array([state.as_of_s]), "UTC"), found.law)[0]  # fmt: skip
    assert code == "law" and "from 32 processors" in words


def test_a_law_that_answers_on_a_new_size_brings_its_interval() -> None:
    state = with_law(learnt(), -0.8)
    below, above = np.log(asked(state, 64.0).quantiles_s[0, [0, 3]] / asked(state, 64.0).quantiles_s[0, 1])
    # The upper reach of the law grows by 0.1 each time the size doubles.
    assert below <= -0.3 + 1e-9 and above >= 0.7 - 1e-9
    assert np.log(asked(state, 32.0).quantiles_s[0, 3] / asked(state, 32.0).quantiles_s[0, 1]) < 0.6


def test_a_law_that_was_further_off_changes_nothing() -> None:
    plain = learnt()
    found, usual = asked(with_law(plain, 0.8), 8.0), asked(plain, 8.0)
    assert found.law[0, CURVE_ERROR] > found.law[0, ESTIMATE_ERROR]
    assert np.array_equal(found.quantiles_s, usual.quantiles_s)


def test_a_law_needs_ended_jobs() -> None:
    state = with_law(learnt(ENOUGH), -0.8)
    state = replace(state, jobs=state.jobs._replace(answered_s=9 * state.jobs.runtime_s))
    assert not speaks(asked(state, 8.0).law)[0]


def test_no_quantile_lies_beyond_the_request_and_the_grace_time() -> None:
    quantiles_s, nothing = np.array([[50.0, 100.0, 150.0, 200.0, 250.0, 300.0, 40.0]]), np.inf

    def with_error(log_s: float, limit_s: float) -> Floats:
        law = np.array([[log_s, 0.1, 0.2, 9.0, 0.0, -1.0, -1.0, 0.1, 0.1]])
        return with_laws(quantiles_s, law, np.array([limit_s]), 300.0)[0]

    assert np.allclose(with_error(np.log(200.0), nothing), 2 * quantiles_s[0])
    assert with_error(np.log(2000.0), 400.0)[1] == 400.0 and with_error(np.log(2000.0), 400.0).max() <= 700.0


@pytest.mark.parametrize(("of_curve", "of_estimate", "is_new", "answers"), [
    (0.1, 0.2, 0.0, True), (0.2, 0.1, 0.0, False), (0.1, 0.05, 1.0, True), (0.5, 0.6, 1.0, False),
])  # fmt: skip
def test_a_curve_answers_where_it_was_closer_or_on_a_new_size_where_it_was_close(
    of_curve: float, of_estimate: float, is_new: float, answers: bool
) -> None:
    assert speaks(np.array([[5.0, of_curve, of_estimate, 9.0, is_new]]))[0] == answers
    assert not speaks(np.array([[5.0, of_curve, of_estimate, 4.0, is_new]]))[0]


def test_a_row_asks_with_a_request_only_where_the_newest_jobs_agree_on_it() -> None:
    """A row answers any job of its group on its count; a request that most of these do not have would mislead."""
    requested_s, queue = [60.0, *[7200.0] * 5, 60.0], ["long", "long", "short", *["long"] * 4]
    jobs = [
        {"requested_s": asked_s, "queue": name, "procs": size}
        for asked_s, name, size in zip(requested_s, queue, [4] * 6 + [64], strict=True)
    ]
    found, _ = rows_asked(jobs, [4, 8, 64])
    assert found == [
        {"procs": 4, "requested_s": 7200.0, "user": "ada"}, {"procs": 8, "requested_s": 7200.0, "user": "ada"},
        {"procs": 64, "requested_s": 60.0, "queue": "long", "user": "ada"},
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("procs", "expected"), [((8, 16), (8, 24, 8)), ((16, 16), (16, 16, 16))], ids=["follow", "stay"]
)
def test_a_row_over_gpus_asks_with_the_processors_that_go_with_them(
    procs: tuple[int, int], expected: tuple[int, int, int]
) -> None:
    jobs = [{"procs": procs[0], "gpus": 1}, {"procs": procs[1], "gpus": 2}]
    found, alone = rows_asked(jobs, [1, 3], "gpus", "a100")
    assert [(one["gpus"], one["procs"], one["gpu_type"]) for one in (*found, *alone)] == [
        (count, size, "a100") for count, size in zip((1, 3, 1), expected, strict=True)
    ]


def test_a_row_over_nodes_asks_with_their_processors() -> None:
    found, alone = rows_asked([{"procs": 48, "nodes": 2}, {"procs": 96, "nodes": 4}], [4, 8], "nodes")
    assert [one["procs"] for one in (*found, *alone)] == [96, 192, 24]


def rows_asked(
    rows: list[dict[str, Any]], counts: list[int], axis: str | None = None, gpu_type: str | None = None
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The questions of one group of these jobs at some counts."""
    jobs = jobs_of([{"gpu_type": gpu_type} | row for row in rows])
    n = len(counts)
    laws = pa.table({"group_id": ["a"] * n, "axis": [axis] * n, "procs": counts})
    known = {"user": "ada", "gpu_type": gpu_type}
    groups = pa.table({"group_id": ["a"]} | {name: [known.get(name)] for name in (*TEMPLATE_COLUMNS, "gpu_type")})
    return row_questions(jobs, np.array(["a"] * len(rows), object), history(jobs), laws, groups)


@pytest.mark.parametrize(("seed", "sizes"), [(0, [4, 5, 8, 12, 16]), (7, [4, 5, 8, 12, 16]), (9, [16, 20, 32])])
def test_a_count_between_two_that_ran_is_answered_between_them(seed: int, sizes: list[float]) -> None:
    """Repeats scatter by 10%, so that the sample of similar jobs differs from count to count."""
    past = log(0.0, KEEPS, n_jobs=60, seed=seed)
    runtime_s = past.runtime_s * np.exp(np.random.default_rng(seed).normal(0, 0.1, len(past)))
    past = replace(past, runtime_s=runtime_s, end_s=past.start_s + runtime_s)
    state = with_law(learn(past, SETTINGS, float(past.end_s.max())), 0.0)
    questions = past.take(np.full(len(sizes), len(past) - 1)).as_submitted()
    at_s = np.full(len(sizes), state.as_of_s)
    found_s = estimate(state, replace(questions, procs=np.array(sizes, float), submit_s=at_s), SETTINGS)[:, 1]
    ends_s = found_s[[0, -1]] * (1 - 1e-12), found_s[[0, -1]] * (1 + 1e-12)
    assert (found_s >= ends_s[0].min()).all() and (found_s <= ends_s[1].max()).all()
