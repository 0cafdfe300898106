"""The policy of the guard: what a round changes, by jobs, rules and what else was seen."""

import math
from collections.abc import Mapping
from typing import Any

import pytest

from pipeline.ingest.limit_comment import asked_s_of, limit_comment, set_s_of
from pipeline.limits.plan import PendingJob, Planned, Reservation, Seen, plan_round
from pipeline.limits.soft import SoftRules
from pipeline.settings import ExportSettings, Whose

NOW_S, HOUR = 1_000_000.0, 3600.0
SET = limit_comment("limit", "stamp=ab", 60, 600)
"""An hour of the ten that were asked for."""
SEEN = limit_comment("limit", "stamp=ab", None, 600)
"""The plug-in has left the request, as without a heartbeat."""
ESTIMATE = (0.5 * HOUR, HOUR, 2 * HOUR, 3 * HOUR, 4 * HOUR, 5 * HOUR)


def job(**changes: Any) -> PendingJob:
    """A waiting job that asks for ten hours, and has them."""
    plain = {
        "job_id": "7", "values": {"user": "ada", "account": "phys", "queue": "long"}, "submit_s": NOW_S - 60,
        "asked_s": 10 * HOUR, "planned_s": 10 * HOUR, "raw_id": 7, "comment": SEEN,
    }  # fmt: skip
    return PendingJob(**plain | changes)


def running(left_s: float, **changes: Any) -> PendingJob:
    """The same that runs with a limit of an hour of ours."""
    plain = {"comment": SET, "planned_s": HOUR, "start_s": NOW_S - 60, "end_s": NOW_S + left_s}
    return job(**plain | changes)


def planned(*jobs: PendingJob, **changes: Any) -> Planned:
    plain: Mapping[str, Any] = {
        "now_s": NOW_S, "jobs": jobs, "export": ExportSettings(mode="limit"), "rules": SoftRules(quantile=0.5),
        "quantiles_s": {"7": ESTIMATE}, "signals": {7: False}, "unknown": frozenset(),
        "reservations": [], "late": frozenset(),
    }  # fmt: skip
    return plan_round(Seen(**plain | changes))


def targets(*jobs: PendingJob, **changes: Any) -> list[float]:
    return [one.to_s for one in planned(*jobs, **changes).changes]


def test_a_running_job_is_raised_when_less_than_the_margin_is_left() -> None:
    assert targets(running(901.0)) == []
    # By the quantiles half of those that reach an hour run 110 minutes or less.
    assert targets(running(899.0)) == [6600.0]
    assert targets(running(899.0), quantiles_s={}) == [HOUR + 900.0]
    (change,) = planned(running(899.0)).changes
    assert change.comment is None, "the first limit stays in the comment"


def test_a_job_past_its_limit_gets_the_margin_from_now() -> None:
    """OverTimeLimit has let it run on while the guard was away."""
    (to_s,) = targets(running(-2000.0), quantiles_s={})
    assert to_s - HOUR - 2000.0 >= SoftRules().margin_s
    assert targets(running(-1e9), quantiles_s={}) == [10 * HOUR]
    assert targets(running(math.nan), quantiles_s={}) == [HOUR + 900.0], "where its end is not known"


def test_extensions_grow_and_end_at_the_request() -> None:
    limit_s, found = HOUR, []
    while limit_s < 10 * HOUR:
        (limit_s,) = targets(running(60.0, planned_s=limit_s), quantiles_s={})
        found.append(limit_s / 60)
    assert found == [75, 90, 105, 135, 195, 315, 600]
    assert targets(running(60.0, planned_s=10 * HOUR)) == []


@pytest.mark.parametrize(
    "own",
    [
        {"comment": ""}, {"comment": "walltime mode=limit x limit_min=none asked_min=none"},
        {"planned_s": 0.5 * HOUR}, {"planned_s": 11 * HOUR}, {"planned_s": None},
        {"comment": limit_comment("dry_run", "stamp=ab", 60, 600)},
    ],
)  # fmt: skip
def test_a_running_job_that_is_not_ours_is_left_alone(own: dict[str, Any]) -> None:
    """No comment of ours, a limit that its user lowered below the first one, or that an administrator raised."""
    assert targets(running(60.0, **own)) == []


FAULTS: Mapping[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a fault": ({"fault": "it was requeued"}, {}),
    "a signal": ({}, {"signals": {7: True}}),
    "opted out": ({}, {"export": ExportSettings(mode="limit", opt_out=Whose(users=("ada",)))}),
    "not opted in": ({}, {"export": ExportSettings(mode="limit", opt_in=("chem",))}),
    "leaving": ({}, {"is_leaving": True}),
}


@pytest.mark.parametrize("why", FAULTS)
def test_every_job_that_should_have_no_limit_gets_its_request_back(why: str) -> None:
    own, seen = FAULTS[why]
    assert targets(running(3000.0, **own), **seen) == [10 * HOUR]
    assert targets(job(comment=SET, planned_s=HOUR, **own), **seen) == [10 * HOUR]
    assert targets(job(**own), **seen) == [], "one without a limit of ours stays as it is"


def test_opted_in_jobs_are_set() -> None:
    for whose in (("ada",), ("long",), ("phys", "chem")):
        assert targets(job(), export=ExportSettings(mode="limit", opt_in=whose)) == [HOUR]


def test_a_waiting_job_is_set_as_the_plug_in_sets_it_and_its_request_kept() -> None:
    (change,) = planned(job(comment=f"ticket 7; {SEEN}")).changes
    assert change.to_s == HOUR and change.comment is not None and change.comment.startswith("ticket 7; ")
    assert (asked_s_of(change.comment), set_s_of(change.comment)) == (10 * HOUR, HOUR)
    again = job(comment=change.comment, planned_s=HOUR)
    assert targets(again) == [], "nothing is done twice"
    # The look-up has changed.
    assert targets(again, quantiles_s={"7": [2 * one for one in ESTIMATE]}) == [2 * HOUR]
    (change,) = planned(again, quantiles_s={}).changes
    assert change.to_s == 10 * HOUR and set_s_of(change.comment or "") is None


@pytest.mark.parametrize(
    "seen",
    [
        {"reservations": None},
        {"reservations": [Reservation(NOW_S + 9 * HOUR, NOW_S + 12 * HOUR, frozenset())]},
    ],
)  # fmt: skip
def test_a_waiting_job_keeps_or_gets_its_request_while_something_is_in_the_way(seen: dict[str, Any]) -> None:
    assert targets(job(), **seen) == []
    assert targets(job(comment=SET, planned_s=HOUR), **seen) == [10 * HOUR]
    assert targets(running(60.0), **seen) == [6600.0], "running jobs wait for nothing"


def test_while_a_job_waits_too_long_all_jobs_of_its_partition_have_their_requests() -> None:
    late = frozenset({"long"})
    assert targets(job(), late=late) == []
    assert targets(job(comment=SET, planned_s=HOUR), late=late) == [10 * HOUR]
    assert targets(running(3000.0), late=late) == [10 * HOUR]
    assert targets(running(3000.0), late=frozenset({"short"})) == []


@pytest.mark.parametrize("start_s", [NOW_S - 60, NOW_S + 11 * HOUR])
def test_a_reservation_that_the_request_does_not_reach_is_not_in_the_way(start_s: float) -> None:
    assert targets(job(), reservations=[Reservation(start_s, start_s + HOUR, frozenset())]) == [HOUR]


def test_a_waiting_job_whose_limit_somebody_changed_is_left_alone() -> None:
    for limit_s in (0.5 * HOUR, 2 * HOUR):
        found = planned(job(comment=SET, planned_s=limit_s))
        assert found.changes == [] and found.left == {"its limit was changed": 1}


@pytest.mark.parametrize("comment", ["", "ticket 7", SEEN.replace("limit_min=same", "limit_min=keep")])
def test_a_job_whose_script_the_plug_in_has_not_seen_or_did_not_like_is_left_alone(comment: str) -> None:
    assert targets(job(comment=comment)) == []


def test_withdrawal_leaves_no_trace() -> None:
    """The comment of others stays."""
    waiting = job(comment=f"ticket 7; {SET}", planned_s=HOUR)
    for one in (waiting, running(3000.0, comment=f"ticket 7; {SET}")):
        (change,) = planned(one, is_leaving=True).changes
        assert (change.to_s, change.comment) == (10 * HOUR, "ticket 7")


def test_a_new_job_keeps_its_limit_until_sacct_should_know_its_submit_line() -> None:
    ours = job(comment=SET, planned_s=HOUR)
    assert targets(ours, signals={}) == []
    assert targets(job(), signals={}) == [], "and no limit is set without it"
    assert targets(ours, signals={}, unknown=frozenset([7])) == [10 * HOUR]
    assert targets(running(3000.0), signals={}) == []
    assert targets(running(3000.0), signals={}, unknown=frozenset([7])) == [10 * HOUR]
