"""Limits keep their promise on simulated users, never cut a stranger, and what is scored is what the file says."""

from dataclasses import replace

import numpy as np
import pytest

from pipeline.arrays import Floats, Ints
from pipeline.estimate.history import History, history
from pipeline.evaluate import check_no_look_ahead
from pipeline.evaluate.limit_advice import limit_figures, limits_read, outcomes, second_half
from pipeline.limits.limit_choice import LimitSettings, no_books
from pipeline.limits.limits import held_of, limits, limits_table, make_limits, nights, rows_at, within_most
from pipeline.limits.own_jobs import LEAST_JOBS, TEMPLATES, names_tell
from pipeline.settings import SiteSettings
from pipeline.tables import LimitStatus
from tests.rows import jobs_of

REQUEST_S = 10_000.0
DAY_S = 86_400.0
N_USERS = 12


def log_of(runtime_s: Floats, user: Ints, gap_s: float = 300.0, **columns: object) -> History:
    """Jobs submitted every `gap_s`, which start at once; each requests REQUEST_S on four processors."""
    return history(jobs_of(rows_of(runtime_s, user, gap_s, **columns)))


def rows_of(runtime_s: Floats, user: Ints, gap_s: float = 300.0, **columns: object) -> list[dict[str, object]]:
    return [
        {
            "user": f"u{who}", "application": "solver", "submit_s": int(gap_s * place), "start_s": int(gap_s * place),
            "end_s": int(gap_s * place + run_s), "runtime_s": float(run_s), "requested_s": REQUEST_S, "procs": 4,
        } | columns
        for place, (who, run_s) in enumerate(zip(user, runtime_s, strict=True))
    ]  # fmt: skip


def simulated(n: int, seed: int, change: float = 1.0) -> History:
    """Users with runtimes of their own, which change in the middle of the log."""
    generator = np.random.default_rng(seed)
    user = generator.integers(0, N_USERS, n)
    median_s = 200.0 * 1.25**user
    drift = np.where(np.arange(n) < n // 2, 1.0, change)
    spread = 0.2 + 0.05 * (user % 4)
    runtime_s = np.minimum(np.ceil(median_s * drift * np.exp(spread * generator.standard_normal(n))), REQUEST_S)
    return log_of(runtime_s, user)


def limits_of(log: History, settings: LimitSettings) -> Floats:
    found = np.full(len(log), np.nan)
    for night in nights(log, settings):
        found[night.places] = night.limit_s
    return found


@pytest.mark.parametrize("share", [0.03, 0.10])
@pytest.mark.parametrize("change", [1.0, 1.6])
def test_the_promise_holds_on_simulated_users(share: float, change: float) -> None:
    past = simulated(9000, 1, change)
    figures = limit_figures(past, limits_of(past, LimitSettings(share=share)), second_half(past))
    assert figures["share_beyond"] <= share
    assert figures["worst_share"] <= 3 * share
    assert figures["removed_share"] > 0.2


@pytest.mark.parametrize("age_days", [0.0, 1.0, 6.0])
def test_the_figures_are_those_of_the_exported_file_to_the_digit(age_days: float) -> None:
    past = simulated(6000, 2)
    first = second_half(past)
    own_s = limits_of(replace(past, stale_s=DAY_S * age_days), LimitSettings())
    read_s = limits_read(past, LimitSettings(), age_days, first)
    assert np.array_equal(read_s[first:], own_s[first:], equal_nan=True) and np.isfinite(read_s[first:]).sum() > 100
    assert limit_figures(past, read_s, first) == limit_figures(past, own_s, first)


def test_a_night_s_table_is_the_one_that_a_run_publishes_then() -> None:
    jobs = jobs_of(rows_of(np.tile([300.0, 500.0, 900.0], 700), np.arange(2100) % 7, 600.0, qos="normal"))
    night = list(nights(history(jobs), LimitSettings(), 0.0))[9]
    published, report = make_limits(jobs, SiteSettings(name="here"), "r", night.at_s)
    assert published.num_rows > 10 and report.kept.rows == published.num_rows
    assert published.equals(limits_table(night.rows, "here", "r"))


def test_a_user_s_losses_are_never_more_than_the_credit() -> None:
    """All jobs of one user become ten times as long, at once and for good; that user loses the credit and no more."""
    past = simulated(9000, 3)
    is_limited = np.isfinite(limits_of(past, LimitSettings()))
    who = np.bincount(past.codes["who"][is_limited]).argmax()
    is_own = past.codes["who"] == who
    # From a midnight on, when that night's limits do not know it yet.
    slow = is_own & (past.submit_s >= 16 * DAY_S)
    runtime_s = np.where(slow, REQUEST_S, past.runtime_s)
    changed = replace(past, runtime_s=runtime_s, end_s=past.start_s + runtime_s)
    settings = LimitSettings()
    beyond = outcomes(changed, limits_of(changed, settings)).is_beyond
    assert 0 < beyond[is_own].sum() <= settings.first_credit + settings.credit_rate * is_own.sum()
    assert beyond[slow].mean() <= 0.09


def test_a_burst_within_a_day_borrows_no_more_than_the_credit() -> None:
    past = simulated(6000, 5)
    burst = np.arange(len(past)) >= 5500
    at_s = past.submit_s[5500]
    start_s, runtime_s = np.where(burst, at_s, past.start_s), np.where(burst, REQUEST_S, past.runtime_s)
    sudden = replace(
        past, submit_s=np.minimum(past.submit_s, at_s), start_s=start_s, runtime_s=runtime_s, end_s=start_s + runtime_s,
        codes=past.codes | {"who": np.where(burst, 3, past.codes["who"])},
    )  # fmt: skip
    settings = LimitSettings()
    n_recent = 6000 / N_USERS
    most = settings.first_credit + settings.credit_per_job * n_recent
    assert 0 < outcomes(sudden, limits_of(sudden, settings), 5500).is_beyond.sum() <= most


def test_a_stranger_and_a_new_application_keep_their_requests() -> None:
    """A user needs LEAST_JOBS ended jobs, and so does each application of a user; other people's jobs do not count."""
    rows = rows_of(np.full(600, 400.0), np.zeros(600, np.int64), 3000.0)
    for place in (500, 510, 520):
        rows[place]["user"] = "stranger"
    for row in rows[530 : 530 + LEAST_JOBS]:
        row["application"] = "another"
    limit_s = limits_of(history(jobs_of(rows)), LimitSettings())
    kept = [500, 510, 520, *range(530, 530 + LEAST_JOBS)]
    assert np.isnan(limit_s[kept]).all() and np.isfinite(limit_s[300:500]).sum() > 20


@pytest.mark.parametrize("column", ["gpus", "gpu_type", "requested_mem_kib", "qos"])
def test_another_number_or_type_of_gpus_memory_or_qos_is_another_kind(column: str) -> None:
    usual, other = ("normal", "long") if column in ("qos", "gpu_type") else (2, 8)
    rows = rows_of(np.full(600, 400.0), np.zeros(600, np.int64), 3000.0, **({"gpus": 2} | {column: usual}))
    for row in rows[500:509]:
        row[column] = other
    limit_s = limits_of(history(jobs_of(rows)), LimitSettings())
    assert np.isnan(limit_s[500:509]).all() and np.isfinite(limit_s[400:500]).any() and np.isfinite(limit_s[509:]).any()


def test_flagged_jobs_and_old_jobs_are_no_basis() -> None:
    rows = rows_of(np.full(300, 400.0), np.zeros(300, np.int64), 3000.0)
    settings = LimitSettings()
    log = history(jobs_of(rows))
    newest_s = float(log.end_s.max())
    assert rows_at(log, newest_s, settings)["n_jobs"].tolist() == [300, 300]
    assert len(rows_at(log, newest_s + 200 * DAY_S, settings)["n_jobs"]) == 0
    flagged = jobs_of([row | {"flag": "flurry"} for row in rows])
    assert make_limits(flagged, SiteSettings(name="here"), "r")[0].num_rows == 0


def test_without_names_the_request_and_the_size_are_needed() -> None:
    rows = rows_of(np.full(400, 400.0), np.zeros(400, np.int64), 3000.0, application=None, queue="batch")
    for row in rows[300:308]:
        row["procs"] = 8
    for row in rows[310:318]:
        row["requested_s"] = 2 * REQUEST_S
    limit_s = limits_of(history(jobs_of(rows)), LimitSettings())
    assert np.isnan(limit_s[300:308]).all() and np.isnan(limit_s[310:318]).all() and np.isfinite(limit_s[200:300]).any()


def test_names_that_number_each_job_tell_no_application() -> None:
    shared, numbered = np.arange(400) % 5, np.arange(400)
    assert names_tell(shared).all() and not names_tell(numbered)[200:].any()
    assert not names_tell(np.where(np.arange(400) % 3 == 0, 1, -1))[10:].any()


def test_jobs_without_a_request_get_no_limit() -> None:
    past = simulated(1500, 6)
    requested_s = np.where(np.arange(1500) % 3 == 0, np.nan, past.requested_s)
    limit_s = limits(replace(past, requested_s=requested_s))[:, 1]
    assert np.isnan(limit_s[::3]).all() and not np.isnan(limit_s[1::3]).any()


def test_planted_futures_change_nothing() -> None:
    past = simulated(2500, 7)
    assert (limits(past)[:, 1] < past.requested_s).sum() > 100
    check_no_look_ahead(limits, past, n_times=3)


def test_the_longest_of_the_latest_jobs() -> None:
    run_s = np.random.default_rng(1).integers(1, 1000, 150).astype(float)
    kinds = held_of(log_of(run_s, np.zeros(150, np.int64))).kinds[0]
    ordered = run_s[kinds.job]
    for nth in (0, 3, 17, 60, 149):
        wanted = [ordered[max(nth + 1 - window, 0) : nth + 1].max() for window in (5, 10, 20, 50, 100)]
        assert kinds.longest_s[nth].tolist() == wanted


def test_no_limit_stands_for_a_reason() -> None:
    rows = rows_of(np.full(60, 400.0), np.zeros(60, np.int64), 3000.0)
    log = history(jobs_of(rows))
    at_s = float(log.end_s.max())
    assert set(rows_at(log, at_s, LimitSettings())["status"]) == {LimitStatus.LIMITED}
    no_credit = rows_at(log, at_s, LimitSettings(first_credit=0.0, credit_rate=0.0))
    assert set(no_credit["status"]) == {LimitStatus.NO_CREDIT} and np.isnan(no_credit["limit_s"]).all()
    long = log_of(np.full(60, 9990.0), np.zeros(60, np.int64), 30_000.0)
    assert set(rows_at(long, float(long.end_s.max()), LimitSettings())["status"]) == {LimitStatus.NO_GAIN}


def test_a_job_that_is_not_limited_does_not_count_for_the_next() -> None:
    """As the plug-in counts: rows of one submitter may allow different numbers of jobs."""
    who, most, wants = np.array([0, 0, 1, 0, 0]), np.array([2, 1, 1, 2, 2]), np.array([True, True, False, True, True])
    assert within_most(who, most, wants, np.arange(5)).tolist() == [True, False, False, True, False]


def test_the_tasks_of_an_array_are_all_limited_or_none() -> None:
    who, most, wants = np.zeros(6, np.int64), np.full(6, 3), np.ones(6, np.bool_)
    assert within_most(who, most, wants, np.array([0, 0, 1, 1, 2, 3])).tolist() == [
        True,
        True,
        False,
        False,
        True,
        False,
    ]
    assert within_most(who, most, wants, np.array([0, 0, 0, 0, 1, 2])).tolist() == [False] * 4 + [True] * 2


def test_a_large_array_keeps_its_request_in_a_replay_and_in_the_file_that_is_read() -> None:
    """Each day an array, and ten jobs; from the 30th day on the credit of a day does not pay for all of its tasks."""
    rows = []
    for day in range(60):
        n_tasks = 3 if day < 30 else 80
        for nth in range(10 + n_tasks):
            submit_s = day * DAY_S + (40_000 + nth * 300 if nth < 10 else 300)
            rows.append(rows_of(np.array([900.0]), np.array([0]))[0] | {
                "submit_s": int(submit_s), "start_s": int(submit_s), "end_s": int(submit_s) + 900,
                "array_id": None if nth < 10 else f"{day}",
            })  # fmt: skip
    log = history(jobs_of(rows))
    is_task, is_large, is_known = log.codes["array_id"] >= 0, log.submit_s >= 30 * DAY_S, log.submit_s >= 10 * DAY_S
    replayed, read = limits_of(log, LimitSettings()), limits_read(log, LimitSettings(), 0.0)
    np.testing.assert_array_equal(replayed, read)
    for code in np.unique(log.codes["array_id"][is_task]):
        assert len(set(np.isnan(replayed[log.codes["array_id"] == code]).tolist())) == 1
    assert np.isnan(replayed[is_task & is_large]).all() and not np.isnan(replayed[~is_task & is_large]).all()
    assert np.isfinite(replayed[is_task & is_known & ~is_large]).all()


def test_credit_is_borrowed_by_chance_and_never_for_more_jobs_at_a_time_than_its_bound() -> None:
    books, who = no_books(1, 0.0, LimitSettings()), np.array([0, 0, 0])
    chance = np.array([0.01, 0.25, 0.9])
    assert books.most_jobs(who, chance).tolist() == [2, 2, 2]
    books.lent[0] = 2.0
    assert books.most_jobs(who, chance).tolist() == [0, 0, 0]
    books.lent[0] = 0.0
    books.earn(np.zeros(1000, np.int64))
    assert books.most_jobs(who, chance).tolist() == [52, 52, 52]
    books.credit[0] = 4.0
    assert books.most_jobs(who, chance).tolist() == [52, 8, 4]
    books.lent[0] = 6.0
    assert books.most_jobs(who, chance).tolist() == [46, 2, 0]
    books.credit[0] = -1.0
    assert books.most_jobs(who, chance).tolist() == [0, 0, 0]
    books.pass_time(1000 * DAY_S)
    books.credit[0], books.lent[0] = 52.0, 0.0
    assert books.most_jobs(who, chance).tolist() == [2, 2, 2]


def test_an_exceedance_costs_more_where_credit_is_spent() -> None:
    books, who = no_books(2, 0.0, LimitSettings(poor_log_price=np.log(4.0))), np.array([0, 1, 2])
    books.credit[:] = [2.0, 1.0, -3.0]
    assert books.prices(who) == pytest.approx(books.prices(who)[0] * np.array([1.0, 2.0, 4.0]))


def test_figures_of_limits_on_jobs_to_check_by_hand() -> None:
    past = log_of(np.array([1000.0, 6000.0, 9000.0]), np.array([0, 0, 1]), 20_000.0)
    figures = limit_figures(past, np.array([2000.0, 5000.0, np.nan]), many_jobs=2)
    assert figures["n_beyond"] == 1 and figures["worst_share"] == 0.5 and figures["n_submitters"] == 1
    assert figures["n_limited"] == 2
    assert figures["removed_share"] == pytest.approx(8000 / (9000 + 4000 + 1000))
    assert figures["lost_share"] == pytest.approx(5000 / 16_000)


@pytest.mark.parametrize(
    ("n_tasks", "n_jobs"),
    [
        ((50,), None), ((1,) * 9, None), ((1,) * 10, 10), ((50, *(1,) * 8), None), ((50, *(1,) * 9), 10),
        ((4,) * 11, 11),
    ],
)  # fmt: skip
def test_a_limit_rests_on_ten_submits_not_on_ten_tasks(n_tasks: tuple[int, ...], n_jobs: int | None) -> None:
    rows = [
        row | {"array_id": str(number) if n > 1 else None, "submit_s": day_s, "start_s": day_s, "end_s": day_s + 600}
        for number, n in enumerate(n_tasks) for day_s in [int(DAY_S) * (number + 1)]
        for row in rows_of(np.full(n, 600.0), np.zeros(n, np.int64))
    ]  # fmt: skip
    found = rows_at(history(jobs_of(rows)), DAY_S * 20, LimitSettings())
    assert set(found.get("n_jobs", np.empty(0)).tolist()) == ({n_jobs} if n_jobs else set())


def test_every_kind_of_jobs_that_a_limit_rests_on_has_one_size() -> None:
    """A limit from short runs on many processors would end a long one on few."""
    assert all("procs" in columns and "who" in columns for columns in TEMPLATES)
