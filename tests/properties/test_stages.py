"""Properties of the rooms behind ingest, on any jobs: nothing is lost, the order of rows is nothing, twice is once."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pipeline.clean import clean
from pipeline.estimate.estimates import make_estimates
from pipeline.estimate.stage import learn_state
from pipeline.group import assign_groups, describe_groups, observe
from pipeline.report import Report
from pipeline.scaling.advice import scalability
from pipeline.scaling.fit import FitRules, fit
from pipeline.scaling.predictions import fitted_series, predict
from pipeline.scaling.series import PredictRules
from pipeline.settings import CleanSettings, GroupSettings
from pipeline.settings import SiteSettings as Site
from tests.rows import jobs_of

maybe = st.none() | st.integers(-2, 5_000)
rows = st.fixed_dictionaries(
    {
        "user": st.sampled_from(["ada", "bob", None]),
        "application": st.sampled_from(["solver", "a|b\n\x1b", None]),
        "requested_mem_kib": st.sampled_from([None, 1.0, 2.5]),
        "submit_s": maybe,
        "start_s": maybe,
        "end_s": maybe,
        "procs": st.sampled_from([None, -1, 0, 1, 2, 4, 8, 64]),
        "requested_procs": st.sampled_from([None, 0, 2, 16]),
        "runtime_s": st.none() | st.floats(-10, 1e6, allow_nan=False).map(lambda t: round(t, 3)),
        "state": st.sampled_from(["COMPLETED", "FAILED", "CANCELLED", "RUNNING", "PARTIAL", "ODD", None]),
    }
)
logs = st.lists(rows, max_size=40)


def through_all_rooms(jobs: pa.Table) -> tuple[dict[str, pa.Table], list[Report]]:
    flagged, _bursts, _effect, *reports = clean(jobs, CleanSettings())
    grouped, one = assign_groups(flagged, GroupSettings())
    groups, two = describe_groups(grouped, GroupSettings())
    observations, three = observe(grouped)
    fits, four = fit(observations, FitRules())
    series = fitted_series(observations, fits, PredictRules(), Site())
    (predictions, five), (scaling, six) = predict(series, "run"), scalability(series, "run")
    state, seven = learn_state(grouped, Site())
    estimates, eight = make_estimates(state, grouped, "run")
    tables = {"jobs": grouped, "groups": groups, "observations": observations, "fits": fits}
    tables |= {"predictions": predictions, "scalability": scaling, "estimates": estimates}
    return tables, [*reports, one, two, three, four, five, six, seven, eight]


def groups_of(rows: Iterable[dict[str, Any]]) -> set[str]:
    return {row["group_id"] for row in rows}


STOPPED = {"user": "ada", "procs": 2, "submit_s": 0, "runtime_s": 1.0, "state": "RUNNING"}


@settings(max_examples=30, deadline=None)
@given(logs)
@example([STOPPED] + [{"user": "ada", "state": "COMPLETED"}] * 19)
def test_nothing_is_lost_without_a_count(log: list[dict[str, Any]]) -> None:
    jobs = jobs_of(log) if log else jobs_of([{}]).slice(0, 0)
    tables, reports = through_all_rooms(jobs)
    for report in reports:
        report.check()
    assert tables["jobs"].num_rows == len(log) == reports[0].seen.rows
    grouped = tables["jobs"].column("group_id")
    assert sum(tables["observations"].column("n_jobs").to_pylist()) == len(grouped) - grouped.null_count
    assert groups_of(tables["fits"].to_pylist()) == groups_of(tables["groups"].to_pylist())
    # Where all of a group's jobs were stopped, at every size, nothing tells a law.
    measured = groups_of(row for row in tables["observations"].to_pylist() if row["runtime_s_median"] is not None)
    assert groups_of(row for row in tables["fits"].to_pylist() if row["is_chosen"]) == measured


@settings(max_examples=20, deadline=None)
@given(logs.filter(bool), st.randoms(use_true_random=False))
def test_the_order_of_rows_is_nothing(log: list[dict[str, Any]], random: Any) -> None:
    jobs = jobs_of(log)
    order = list(range(len(log)))
    random.shuffle(order)
    first, _ = through_all_rooms(jobs)
    second, _ = through_all_rooms(jobs.take(pa.array(order)))
    for name in first.keys() - {"jobs"}:
        assert first[name].to_pylist() == second[name].to_pylist(), name
    back = np.argsort(order)
    assert second["jobs"].take(pa.array(back)).to_pylist() == first["jobs"].to_pylist()


@settings(max_examples=20, deadline=None)
@given(logs.filter(bool))
def test_flags_come_from_the_record_alone_and_change_nothing_else(log: list[dict[str, Any]]) -> None:
    jobs = jobs_of(log)
    once, *_ = clean(jobs, CleanSettings())
    twice, *_ = clean(once, CleanSettings())
    assert twice.to_pylist() == once.to_pylist()
    set_here = ["flag", "burst_id", "is_lower_bound"]
    assert once.drop(set_here).to_pylist() == jobs.drop(set_here).to_pylist()


@settings(max_examples=20, deadline=None)
@given(logs.filter(bool))
def test_predictions_are_positive_ordered_and_where_they_say(log: list[dict[str, Any]]) -> None:
    tables, _ = through_all_rooms(jobs_of(log))
    for row in tables["predictions"].to_pylist():
        ends = [row[f"runtime_s{end}"] for end in ("_lo95", "_lo80", "", "_hi80", "_hi95")]
        assert ends[0] > 0 and ends == sorted(ends)
        assert row["efficiency"] is None or row["efficiency"] <= 1 + 1e-9
