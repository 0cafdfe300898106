"""Looking a job up: the chain by hand, fits for sizes not run yet, ages, and values that no table holds."""

from dataclasses import replace

import pyarrow as pa
import pytest

from pipeline.core.matching import first_place
from pipeline.core.settings import EstimateSettings
from pipeline.predict import estimate
from pipeline.predict.lookup import Answer, Fitted, Question, look_up
from tests.rows import jobs_of

FIT = Fitted("user", 50.0, 40.0, 60.0, 30.0, 70.0, "ok", "amdahl", 7, 4, 900)
JOBS = jobs_of(
    [{"user": "ada", "procs": 4, "runtime_s": t, "end_s": 1_500} for t in (10.0, 20.0, 30.0)]
    + [{"user": "ada", "procs": 8, "runtime_s": 99.0, "application": "other"}] * 2
    + [{"user": None, "application": None, "runtime_s": 5.0}] * 2
)
CHAIN = (("user", "application", "procs"), ("user", "application"), ("user",), ())
ESTIMATES = estimate(JOBS, EstimateSettings(chain=CHAIN), "run")[0]


def asked(fit: Fitted | None = None, **values: str | float | None) -> Answer:
    found = look_up(ESTIMATES, Question(values), 2_000, lambda: fit)
    assert found is not None
    return found


def test_the_most_specific_template_with_these_very_values_answers() -> None:
    found = asked(user="ada", application="solver", procs=4)
    assert (found.template, found.chain_rank, found.n_jobs) == ("user+application+procs", 0, 3)
    assert (found.quantiles_s[50], found.quantiles_s[90], found.passed) == (20.0, 28.0, ())
    assert (found.newest_end_s, found.age_s) == (1_500, 500)


def test_what_has_no_row_is_passed_over_and_named() -> None:
    found = asked(user="ada", application="solver", procs=5)
    assert (found.template, found.passed) == ("user+application", ("user+application+procs",))
    assert asked(user="ada", application="unheard").template == "user"
    assert asked(user="nobody").template == asked().template == "all"
    assert asked().passed == ("user+application+procs", "user+application", "user")


def test_an_unknown_value_matches_jobs_whose_value_is_unknown() -> None:
    assert asked(procs=4).template == "user+application+procs"
    assert asked(user=None, application=None, procs=None).template == "all"


def test_a_size_not_run_yet_is_answered_by_a_reliable_fit() -> None:
    found = asked(FIT, user="ada", application="solver", procs=16)
    assert (found.source, found.quantiles_s[50], found.quantiles_s[10], found.age_s) == ("predictions", 50, 40, 1_100)
    assert found.quantiles_s[95] is None and "user+application" in found.passed
    for doubted in (replace(FIT, reliability="far"), None):
        found = asked(doubted, user="ada", application="solver", procs=16)
        assert (found.source, found.fit, found.quantiles_s[50]) == ("estimates", doubted, 20.0)


def test_a_fit_is_not_asked_where_the_size_has_run_or_is_not_known() -> None:
    def never() -> Fitted:
        raise AssertionError

    for values in ({"procs": 4}, {}):
        assert look_up(ESTIMATES, Question({"user": "ada", "application": "solver", **values}), None, never)


@pytest.mark.parametrize("name", ["'; DROP TABLE job; --", "\x1b[31m", "\ud800", "ada\0", "+", "all", ""])
def test_a_hostile_name_is_a_value_that_no_job_has(name: str) -> None:
    assert asked(user=name).template == "all"


def test_a_value_of_another_type_matches_nothing() -> None:
    assert first_place(ESTIMATES, {"user": 3.0}) == first_place(ESTIMATES, {"procs": "4"}) == -1
    assert asked(user="ada", application="solver", procs=float("nan")).template == "user+application"


def test_tables_without_a_job_have_no_answer() -> None:
    assert look_up(ESTIMATES.slice(0, 0), Question({}), None, lambda: None) is None
    assert look_up(ESTIMATES, Question({}, site="elsewhere"), None, lambda: None) is None


def test_the_first_row_that_holds_all_values() -> None:
    table = pa.table({"a": ["x", None, "x"], "n": [1, 2, None]})
    assert [first_place(table, {"a": a, "n": n}) for a, n in (("x", 1), (None, 2), ("x", None), ("y", 1))] == [
        0, 1, 2, -1,
    ]  # fmt: skip
    assert (first_place(table, {}), first_place(table.slice(0, 0), {})) == (0, -1)
