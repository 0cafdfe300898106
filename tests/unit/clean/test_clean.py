"""Flags: each mask on the records it is for and on those it must leave alone."""

from typing import Any

import pytest

from pipeline.clean import BURST_FLAGS, RULES, clean
from pipeline.schema import Flag
from pipeline.settings import CleanSettings, SiteRule
from tests.rows import flags, jobs_of


def flag_of(**row: Any) -> str | None:
    return flags(clean(jobs_of([row]), CleanSettings())[0])[0]


@pytest.mark.parametrize(
    ("row", "flag"),
    [
        ({}, None),
        ({"state": "RUNNING", "end_s": None, "runtime_s": None}, Flag.UNFINISHED),
        ({"state": "PENDING", "start_s": None, "end_s": None, "runtime_s": None}, Flag.UNFINISHED),
        ({"state": None, "end_s": None, "runtime_s": None}, Flag.UNFINISHED),
        ({"state": "CANCELLED", "start_s": None, "end_s": None, "runtime_s": None}, Flag.CANCELLED_BEFORE_START),
        ({"state": "CANCELLED", "runtime_s": 0.0, "end_s": 1_060}, Flag.CANCELLED_BEFORE_START),
        ({"state": "CANCELLED"}, None),
        ({"state": "FAILED", "runtime_s": 0.0, "end_s": 1_060}, Flag.NEVER_RAN),
        ({"runtime_s": -5.0, "end_s": 1_055}, Flag.NEVER_RAN),
        ({"start_s": None, "end_s": None, "runtime_s": None}, Flag.NEVER_RAN),
        ({"start_s": None, "end_s": None}, None),
        ({"submit_s": None}, Flag.IMPOSSIBLE_TIMES),
        ({"start_s": 900}, Flag.IMPOSSIBLE_TIMES),
        ({"end_s": 1_050}, Flag.IMPOSSIBLE_TIMES),
        ({"procs": None}, Flag.NO_PROCS),
        ({"procs": 0, "requested_procs": -1}, Flag.NO_PROCS),
        ({"procs": None, "requested_procs": 8}, None),
        ({"runtime_s": 10_000.0, "end_s": 11_060, "requested_s": 600.0}, None),
    ],
)
def test_one_record(row: dict[str, Any], flag: Flag | None) -> None:
    assert flag_of(**row) == flag


def test_a_part_is_set_aside_only_beside_its_whole() -> None:
    rows = [
        {"job_id": "1"},
        {"job_id": "1", "restart": 1, "state": "PARTIAL"},
        {"job_id": "2", "restart": 0, "state": "PARTIAL"},
    ]
    flagged, *_ = clean(jobs_of(rows), CleanSettings())
    assert flags(flagged) == [None, Flag.PARTIAL_EXECUTION, None]


def test_the_first_reason_wins() -> None:
    assert flag_of(state="CANCELLED", runtime_s=0.0, procs=None, submit_s=None) == Flag.CANCELLED_BEFORE_START


def test_a_flag_can_be_switched_off() -> None:
    flagged, *_ = clean(jobs_of([{"procs": None}]), CleanSettings(flags_off=("no_procs",)))
    assert flags(flagged) == [None]


def test_flags_computed_twice_are_the_same_and_nothing_else_changes() -> None:
    jobs = jobs_of([{}, {"runtime_s": 0.0}, {"procs": None}])
    once, *_ = clean(jobs, CleanSettings())
    twice, *_ = clean(once, CleanSettings())
    assert twice.equals(once)
    assert once.drop(["flag", "is_lower_bound"]).equals(jobs.drop(["flag", "is_lower_bound"]))


def test_the_report_counts_jobs_and_processor_seconds() -> None:
    *_, report = clean(jobs_of([{}, {}, {"submit_s": None, "procs": 10}]), CleanSettings())
    assert (report.seen.rows, report.kept.rows) == (3, 2)
    assert report.set_aside[Flag.IMPOSSIBLE_TIMES].proc_s == 1_000.0


def test_every_flag_has_a_rule_and_a_meaning() -> None:
    assert {*RULES, *BURST_FLAGS.values(), Flag.SITE_DROP} == set(Flag)
    assert all(flag.meaning for flag in Flag)


def test_an_empty_log_is_no_error() -> None:
    empty = jobs_of([{}]).slice(0, 0)
    assert clean(empty, CleanSettings())[-1].seen.rows == 0


def test_a_rule_that_names_no_job_is_told() -> None:
    rule = SiteRule(burst="flurry-deadbeef", reason="a typo")
    *_, report = clean(jobs_of([{"user": "ada"}]), CleanSettings(drop=(rule,)))
    assert report.notes == ("the rule to drop burst flurry-deadbeef (a typo) matches no job: check its spelling",)
