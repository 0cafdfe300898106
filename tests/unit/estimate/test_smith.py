"""The rival by templates: its mean and interval by hand, the narrowest answers, and unknown never matches."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import t

from pipeline.estimate.estimate_rules import ESTIMATE_RULES
from pipeline.estimate.history import ATTRIBUTES, History
from pipeline.estimate.score import QUANTILES
from pipeline.estimate.smith import smith

SHARES = np.array(QUANTILES)


def made(runtime_s: list[float], **columns: object) -> History:
    """One user's jobs of one application that follow one another; `who` -1 is unknown."""
    run, n = np.array(runtime_s, float), len(runtime_s)
    submit_s = np.concatenate([[0], np.cumsum(run)])[:n]
    codes = {name: np.full(n, -1, np.int64) for name in (*ATTRIBUTES, "what")}
    codes["what"], codes["who"] = np.zeros(n, np.int64), np.array(columns.pop("who", [0] * n), np.int64)
    plain = History(
        row=np.arange(n), submit_s=submit_s, start_s=submit_s, end_s=submit_s + run, runtime_s=run,
        requested_s=np.full(n, np.nan), requested_mem_kib=np.full(n, np.nan), gpus=np.full(n, np.nan),
        procs=np.ones(n), local_s=submit_s.astype(np.int64), is_lower_bound=np.zeros(n, bool),
        is_learnt=np.ones(n, bool), codes=codes,
    )  # fmt: skip
    return replace(plain, **{name: np.array(values) for name, values in columns.items()})


def last(history: History) -> np.ndarray:
    """The quantiles of the last job."""
    return smith(history, ESTIMATE_RULES)[-1]


def test_a_mean_and_its_t_interval() -> None:
    # Nobody's jobs: only the template of all jobs answers.
    got = last(made([10, 20, 40, 30, 99], who=[-1] * 5))
    error = np.std([10, 20, 40, 30], ddof=1) * np.sqrt(1 + 1 / 4)
    assert got == pytest.approx(np.maximum(25 + t.ppf(SHARES, 3) * error, 0))


def test_the_narrowest_interval_answers() -> None:
    jobs = made([100, 900, 110, 890, 105, 1], who=[0, 1, 0, 1, 0, 0], requested_s=[1000.0] * 6)
    error = np.std([100, 110, 105], ddof=1) * np.sqrt(1 + 1 / 3)
    assert last(jobs)[:4] == pytest.approx(105 + t.ppf(SHARES[:4], 2) * error)


def test_shares_of_the_request_and_no_more_than_the_request() -> None:
    jobs = made([50, 30, 50, 30, 1], requested_s=[100.0, 60.0, 100.0, 60.0, 1000.0])
    assert last(jobs)[1] == pytest.approx(500)
    assert last(made([100, 110, 120, 1], requested_s=[500.0, 500.0, 500.0, 60.0]))[1] == 60 * (110 / 500)


def test_equal_runtimes_are_known_to_the_second_and_no_better() -> None:
    got = last(made([60, 60, 60, 1], who=[-1] * 4))
    assert got[4] == pytest.approx(60 + t.ppf(0.95, 2) / np.sqrt(12))


def test_a_job_stopped_below_the_mean_says_nothing() -> None:
    runs = [40.0, 10, 30, 20]
    stopped = [False] * 4 + [True, False]
    before = last(made([*runs, 1], who=[-1] * 5))[1]
    assert last(made([*runs, 12, 1], who=[-1] * 6, is_lower_bound=stopped))[1] == before
    assert last(made([*runs, 70, 1], who=[-1] * 6, is_lower_bound=stopped))[1] > before


def test_one_job_or_none_has_no_answer() -> None:
    assert np.isnan(smith(made([10, 20]), ESTIMATE_RULES)).all()
    assert smith(made([]), ESTIMATE_RULES).shape == (0, 6)
