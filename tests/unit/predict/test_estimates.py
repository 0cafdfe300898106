"""Job-level estimates: the chain, its quantiles, and what is left out."""

import pytest

from pipeline.clean import clean
from pipeline.core.settings import CleanSettings, EstimateSettings
from pipeline.predict import estimate
from tests.rows import jobs_of


def estimates(rows: list[dict[str, object]], **settings: object) -> list[dict[str, object]]:
    flagged, *_ = clean(jobs_of(rows), CleanSettings())
    return estimate(flagged, EstimateSettings(**settings), "run")[0].to_pylist()


def test_quantiles_by_hand_from_most_to_least_specific() -> None:
    rows = estimates([{"runtime_s": t, "end_s": 1_060 + t} for t in (10, 20, 30, 40, 50)])
    assert [row["template"] for row in rows] == ["user+application+procs", "user+application", "user", "all"]
    assert [row["chain_rank"] for row in rows] == [0, 1, 2, 3]
    assert {(row["runtime_s_q50"], row["runtime_s_q80"], row["n_jobs"]) for row in rows} == {(30.0, 42.0, 5)}
    assert {row["newest_end_s"] for row in rows} == {1_110}
    assert {(row["runtime_s_q10"], row["runtime_s_q90"], row["runtime_s_q99"]) for row in rows} == {(14, 46, 49.6)}


def test_a_chain_always_ends_in_the_template_that_answers_for_any_job() -> None:
    """However few jobs there are, and whatever the settings name."""
    rows = estimates([{}], chain=(("user",),), min_jobs=5)
    assert [(row["template"], row["chain_rank"], row["n_jobs"]) for row in rows] == [("all", 1, 1)]
    assert [row["chain_rank"] for row in estimates([{}] * 2, chain=((), ("user",)))] == [0, 1]


def test_jobs_that_would_have_run_longer_are_counted() -> None:
    jobs = jobs_of([{"is_lower_bound": True}, {"is_lower_bound": False}, {}])
    rows = estimate(jobs, EstimateSettings(chain=((),)), "run")[0].to_pylist()
    assert [(row["n_jobs"], row["n_censored"]) for row in rows] == [(3, 1)]


def test_the_request_decides_the_size_where_it_is_known() -> None:
    rows = estimates([{"procs": 16, "requested_procs": 8}] * 2, chain=(("procs",),))
    assert [row["procs"] for row in rows] == [8, None]


def test_flagged_jobs_teach_nothing() -> None:
    rows = estimates([{}, {}, {"runtime_s": 0.0}], chain=((),))
    assert [row["n_jobs"] for row in rows] == [2]


def test_a_value_with_too_few_jobs_is_left_to_the_next_template() -> None:
    rows = estimates([{"user": "ada"}, {"user": "bob"}, {"user": "bob"}], chain=(("user",), ()))
    assert [(row["template"], row["user"], row["n_jobs"]) for row in rows] == [("user", "bob", 2), ("all", None, 3)]


def test_a_hostile_name_is_a_value_like_any_other() -> None:
    name = "'; DROP TABLE job; --"
    assert estimates([{"user": name}] * 2, chain=(("user",),))[0]["user"] == name


def test_an_unknown_value_matches_only_itself() -> None:
    rows = estimates([{"application": None}] * 2 + [{}] * 3, chain=(("user", "application"),))
    assert {(row["application"], row["n_jobs"]) for row in rows[:-1]} == {(None, 2), ("solver", 3)}


def test_a_runtime_cut_at_its_limit_is_a_lower_bound_and_an_open_end_is_null() -> None:
    runs = [(float(t), "COMPLETED") for t in range(10, 50, 10)] + [(45.0, "TIMEOUT")]
    (row,) = estimates([{"runtime_s": t, "state": state} for t, state in runs], chain=((),))
    assert (row["runtime_s_q50"], row["n_jobs"], row["n_censored"]) == (30.0, 5, 1)
    assert row["runtime_s_q80"] == pytest.approx(41.0) and row["runtime_s_q95"] is None


def test_no_jobs_no_estimates() -> None:
    assert estimates([{"runtime_s": 0.0}]) == []
