"""Requests that say nothing of runtimes are found in a log, listed, and count as none in waste and replays."""

from pipeline.schedule.workload import Convention, workload_of_jobs
from pipeline.settings import CleanSettings
from pipeline.silent_requests import SilentRequest, says_nothing, silent_requests
from pipeline.usage.waste import waste
from tests.rows import jobs_of

YEAR_S, DAY_S = 365 * 86_400.0, 86_400.0
BULK = [{"queue": "long", "requested_s": YEAR_S, "runtime_s": 3600.0 + n, "submit_s": 600 * n} for n in range(150)]
MEANT = [{"queue": "short", "requested_s": 7200.0, "runtime_s": 3600.0, "submit_s": 600 * n} for n in range(150)]


def test_the_default_of_an_unlimited_queue_is_listed() -> None:
    assert silent_requests(jobs_of(BULK + MEANT)) == [SilentRequest("long", YEAR_S, 150, 3749.0, is_endless=True)]
    is_silent = says_nothing(jobs_of(MEANT + BULK), silent_requests(jobs_of(BULK + MEANT)))
    assert is_silent.tolist() == [False] * 150 + [True] * 150


def test_other_requests_count() -> None:
    a_day = [{**job, "requested_s": DAY_S} for job in BULK]
    a_quarter = {"queue": "long", "requested_s": DAY_S, "runtime_s": DAY_S / 4}
    in_long = [{**job, "queue": "long"} for job in MEANT]
    longer = {"queue": "wide", "requested_s": DAY_S, "runtime_s": DAY_S / 2}
    unshared = [*({**job, "requested_s": 14_999.0} for job in BULK), *in_long, longer]
    assert silent_requests(jobs_of(BULK[:99])) == silent_requests(jobs_of(MEANT)) == []
    assert silent_requests(jobs_of([*a_day, a_quarter])) == []
    assert len(silent_requests(jobs_of(unshared))) == 1
    assert silent_requests(jobs_of([*unshared, in_long[0]])) == []


def test_a_default_within_the_longest_run_is_one_of_its_queue_alone() -> None:
    default = [{**job, "requested_s": DAY_S} for job in BULK]
    others = [{**MEANT[0], "queue": "wide", "requested_s": DAY_S, "runtime_s": DAY_S - 60}] * 20
    found = silent_requests(jobs_of(default + others))
    assert [(one.queue, one.n_jobs, one.is_endless) for one in found] == [("long", 150, False)]
    asked = [{**job, "requested_procs": 4} for job in default + others]
    assert set(workload_of_jobs(jobs_of(asked), 8).request_s.tolist()) == {int(DAY_S)}


def test_nobody_reserves_by_a_request_that_says_nothing() -> None:
    table, report = waste(jobs_of(BULK + MEANT), "here", "r1")
    every = table.to_pylist()[0]
    assert (every["n_requested"], every["reserved_hours"]) == (150, 150 * 4.0)
    assert report.facts["silent_requests"] == 150
    said = "150 jobs in queue long requested 8,760 h, but none ran longer than 1.04 h; this request is ignored."
    assert report.notes == (said,)


def test_a_replay_plans_with_the_largest_request_that_says_something() -> None:
    asked = [{**job, "requested_procs": 4} for job in BULK + MEANT]
    work = workload_of_jobs(jobs_of(asked), 8)
    assert set(work.request_s.tolist()) == {7200} and work.counts["silent_request"] == 150
    assert "no_request" not in work.counts
    assert YEAR_S in workload_of_jobs(jobs_of(asked), 8, Convention.PYSS).request_s
    alone = workload_of_jobs(jobs_of(asked[:150]), 8)
    assert set(alone.request_s.tolist()) == {int(YEAR_S)} and "silent_request" not in alone.counts


def test_a_young_log_judges_no_request_because_its_long_runs_have_not_ended() -> None:
    young = [{**job, "submit_s": 10 * place} for place, job in enumerate(BULK)]
    assert silent_requests(jobs_of(young)) == [] != silent_requests(jobs_of(BULK))


def test_a_site_says_that_every_request_counts() -> None:
    assert CleanSettings(flags_off=("silent_request",)).counts_every_request
    table, report = waste(jobs_of(BULK + MEANT), "here", "r1", counts_every_request=True)
    assert (table.to_pylist()[0]["n_requested"], report.facts["silent_requests"]) == (300, 150)
    assert report.notes[0].endswith("longer than 1.04 h; it is still used, because of clean.flags_off.")
    asked = [{**job, "requested_procs": 4} for job in BULK + MEANT]
    work = workload_of_jobs(jobs_of(asked), 8, counts_every_request=True)
    assert YEAR_S in work.request_s and "silent_request" not in work.counts
