"""The nightly table on jobs few enough to check by hand, and its look-up."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from pipeline.estimate.estimates import KEPT_DAYS, NAMES, estimates_table, table_rows
from pipeline.estimate.history import History, history
from pipeline.evaluate.methods import table
from pipeline.tables import ESTIMATES
from tests.rows import jobs_of
from tests.table_lookup import look_up
from tests.unit.estimate.table_log import DAY_S, made_log, state_at

NOON_S = DAY_S // 2


def log(*jobs: dict[str, object], **fixed: object) -> History:
    """Jobs that start at their submit; defaults are those of tests.rows."""
    rows = [{"queue": "q", "requested_s": 3600.0} | fixed | job for job in jobs]
    for row in rows:
        row |= {"start_s": row["submit_s"], "end_s": int(row["submit_s"] + row["runtime_s"])}
    return history(jobs_of(rows))


def job(day: int, runtime_s: float, **values: object) -> dict[str, object]:
    return {"submit_s": day * DAY_S + NOON_S, "runtime_s": runtime_s} | values


def test_nothing_is_known_before_the_first_midnight_after_an_end() -> None:
    found = table(log(job(0, 600.0), job(0, 600.0), job(1, 600.0)))
    assert np.isnan(found[:2]).all()
    assert not np.isnan(found[2]).any()


@pytest.mark.parametrize(("stale_days", "first"), [(0.0, 1), (0.5, 1), (1.0, 2), (7.0, 8)])
def test_a_table_answers_from_the_midnight_that_is_old_enough(stale_days: float, first: int) -> None:
    days = replace(log(*(job(day, 600.0) for day in range(12))), stale_s=stale_days * DAY_S)
    found = table(days)
    assert np.flatnonzero(~np.isnan(found[:, 1]))[0] == first


def test_equal_runtimes_are_the_median_and_lie_inside_the_interval() -> None:
    found = table(log(*(job(day, 600.0) for day in range(60))))
    assert np.allclose(found[1:, 1], 600.0)
    assert (found[1:, 0] <= 600.0).all()
    assert (found[1:, 3] >= 600.0 - 1e-6).all()


def test_a_row_without_request_is_a_ratio_of_it() -> None:
    jobs = [job(day, 900.0, requested_s=3600.0, procs=4) for day in range(5)]
    found = table(log(*jobs, job(6, 1.0, requested_s=7200.0, procs=8)))
    assert found[-1, 1] == pytest.approx(1800.0)


def test_the_median_is_at_most_the_request_and_upper_quantiles_may_be_more() -> None:
    jobs = [job(day, 7200.0 + day) for day in range(40)]
    found = table(log(*jobs))
    assert (found[1:, :2] <= 3600.0).all()
    assert (found[20:, 4] > 3600.0).all()


def test_a_log_without_requests_is_answered_in_seconds() -> None:
    jobs = [job(day, 600.0, requested_s=None) for day in range(10)]
    found = table(log(*jobs, job(11, 1.0, requested_s=None, procs=64, user="bob")))
    assert np.isfinite(found[1:]).all()
    assert found[-1, 1] == pytest.approx(600.0)


def test_a_user_who_never_gave_a_request_is_answered_in_seconds_too() -> None:
    jobs = [job(day, 600.0, requested_s=None) for day in range(10)]
    found = table(log(*jobs, job(11, 1.0, requested_s=1200.0), job(11, 1.0, requested_s=300.0)))
    assert found[-2, 1] == pytest.approx(600.0)
    assert found[-1, 1] == 300.0


@pytest.mark.parametrize("unknown", ["user", "application", "queue"])
def test_unknown_values_are_passed_over_like_rows_that_are_absent(unknown: str) -> None:
    jobs = [job(day, 600.0) for day in range(5)] + [job(6, 1.0, **{unknown: None})]
    answer = table(log(*jobs))[-1, 1]
    assert answer == pytest.approx(600.0)


def test_every_row_has_quantiles_that_ascend_and_one_key() -> None:
    past = made_log()
    rows = table_rows(state_at(past), past)
    seconds = np.stack([rows[f"runtime_s_{name}"] for name in NAMES], axis=1)
    assert np.isfinite(seconds).all()
    assert (np.diff(seconds, axis=1) >= 0).all()
    published = estimates_table(rows, "here", "run")
    assert ESTIMATES.check(published).num_rows == len(seconds)
    size = "procs+gpus+gpu_type"
    assert set(published.column("template").to_pylist()) == {
        f"who+what+queue+requested_s+{size}", f"who+what+requested_s+{size}", f"who+requested_s+{size}",
        "who+what+requested_s", "who+requested_s", f"who+{size}", "who", "requested_s", "all",
    }  # fmt: skip


def test_ratios_stand_in_rows_without_request_alone() -> None:
    past = made_log()
    published = estimates_table(table_rows(state_at(past), past), "here", "run")
    has_request = np.array(["requested_s" in one for one in published.column("template").to_pylist()])
    has_ratio = published.column("ratio_q50").is_valid().to_numpy()
    assert has_ratio.any() and not (has_ratio & has_request).any()


def test_one_line_of_sql_looks_a_job_up() -> None:
    duckdb = pytest.importorskip("duckdb")
    past = made_log()
    rows = table_rows(state_at(past), past)
    published = estimates_table(rows, "here", "run")
    asked = past.take(np.arange(0, len(past), 40))
    wanted = look_up(rows, asked)
    with duckdb.connect() as database:
        database.register("estimates", pa.table(published))
        for place in range(len(asked)):
            assert sql_median(database, asked, place) == pytest.approx(wanted[place, 1], rel=1e-12)


def sql_median(database: object, asked: History, place: int) -> float:
    texts = {name: [*asked.names[name], None][asked.codes[name][place]] for name in ("who", "what", "queue")}
    requested_s = float(np.nan_to_num(asked.requested_s[place]))
    values = texts | {"r": requested_s, "p": int(asked.procs[place])}
    query = """
        SELECT least(coalesce(nullif($r, 0) * ratio_q50, runtime_s_q50), nullif($r, 0)) FROM estimates
        WHERE (who IS NULL OR who = $who) AND (what IS NULL OR what = $what) AND (queue IS NULL OR queue = $queue)
          AND (requested_s IS NULL OR requested_s = $r) AND (procs IS NULL OR procs = $p)
          AND coalesce(gpus, 0) = 0 AND gpu_type IS NULL
        ORDER BY chain_rank LIMIT 1"""
    return float(database.execute(query, values).fetchone()[0])  # type: ignore[attr-defined]


def test_what_ages_out_goes() -> None:
    old = job(0, 600.0, user="old", procs=3)
    past = log(old, *(job(day, 600.0) for day in (0, 400, 800, int(KEPT_DAYS))))
    at_s = (KEPT_DAYS + 1) * DAY_S
    assert "old" not in table_rows(state_at(past, at_s), past)["who"]
    assert "old" in table_rows(state_at(past, at_s - 2 * DAY_S), past)["who"]


def test_each_row_counts_the_ended_jobs_of_its_key() -> None:
    past = made_log()
    rows = table_rows(state_at(past), past)
    values = {"requested_s": np.nan_to_num(past.requested_s), "procs": past.procs, "gpus": np.zeros(len(past))}
    for name in ("who", "what", "queue", "gpu_type"):
        values[name] = np.array([*past.names[name], None], object)[past.codes[name]]
    for place in range(0, len(rows["n_jobs"]), 40):
        named = rows["template"][place].split("+") if rows["template"][place] != "all" else []
        is_own = [[value == rows[name][place] for value in values[name]] for name in named]
        assert rows["n_jobs"][place] == (np.all(is_own, axis=0).sum() if named else len(past))


def test_no_job_and_one_job_have_answers_of_the_right_shape() -> None:
    past = made_log(50)
    for n_jobs in (0, 1):
        few = past.take(np.arange(n_jobs))
        assert table(few).shape == (n_jobs, 6)
        assert look_up(table_rows(state_at(few), few), past).shape == (50, 6)
