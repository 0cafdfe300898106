"""Expected starts: as-of, better than limits on a simulated machine, and calibrated; the parts by hand."""

from dataclasses import replace

import numpy as np
import pytest

from pipeline.estimate.state import learn
from pipeline.forest import grown, leaves, similarity
from pipeline.schedule.forward import orders_of, simulated
from pipeline.schedule.queues import queue_at, usual_capacity
from pipeline.schedule.start_cases import FEATURES, GRID, Cases, cases_at
from pipeline.schedule.starts import (
    LEVELS,
    QueueRecord,
    answers,
    at_levels,
    estimated,
    pinball_s,
    queue_names,
    record_in,
    record_of,
    record_of_log,
    starts,
    survivor_quantiles,
    table_of,
)
from pipeline.schedule.time_left import outcomes_of
from tests.unit.schedule.queue_log import BEGIN_S, CAPACITY, queue_history, queue_log, with_other_futures

LOG = queue_log()
COLUMNS = ("runtime_s", "requested_s", "end_s")
MIDDLE_S = float(np.median(LOG.past.submit_s))


@pytest.fixture(scope="module")
def found() -> QueueRecord:
    cases = cases_at(LOG, np.linspace(*LOG.past.submit_s[[150, -1]], 220))
    known = LOG.past.by_end[-300:]
    outcomes = outcomes_of(LOG.quantiles_s[known], *(getattr(LOG.past, one)[known] for one in COLUMNS))
    names = np.array(queue_names(LOG.past), object)
    return QueueRecord(LOG.past.submit_s[-1:], names, record_of(cases), outcomes)


def with_estimates(found: QueueRecord) -> Cases:
    return found.cases.take(~np.isnan(found.cases.quantiles_s[:, 0, 0]))


def as_of_answers(record: Cases) -> np.ndarray:
    """(cases, LEVELS): each answered with the record that was known at its instant."""
    asked = [record.take(slice(row, row + 1)) for row in range(len(record.at_s))]
    return np.concatenate([answers(record, 0.0, one, float(one.at_s[0]))[0] for one in asked])


def test_starts_are_closer_than_those_of_limits_and_hold_as_often_as_they_say(found: QueueRecord) -> None:
    cases = with_estimates(found)
    said_s = as_of_answers(cases)
    is_late = np.arange(len(cases.at_s)) > len(cases.at_s) // 3
    left_s = (cases.start_s - cases.at_s)[is_late]
    limits_s = np.exp(cases.features[is_late, FEATURES.index("sim_limits")]) - 60
    loss_s = pinball_s(said_s[is_late], left_s, np.array(LEVELS)).mean()
    assert loss_s < 0.7 * pinball_s(np.tile(limits_s[:, None], 4), left_s, np.array(LEVELS)).mean()
    held = (left_s[:, None] <= said_s[is_late]).mean(axis=0)
    assert 0.72 < held[2] < 0.9
    assert held[3] > 0.88


def test_no_case_knows_what_happens_after_its_instant() -> None:
    other = queue_log(with_other_futures(LOG.past, MIDDLE_S))
    instants_s = np.linspace(LOG.past.submit_s[100], MIDDLE_S - 40_000, 25)
    was, now = cases_at(LOG, instants_s), cases_at(other, instants_s)
    assert was.at_s.max() <= MIDDLE_S
    np.testing.assert_array_equal(was.features, now.features)
    known, planted = was.left_s(MIDDLE_S), now.left_s(MIDDLE_S)
    np.testing.assert_array_equal(known[0], planted[0])
    np.testing.assert_array_equal(known[1], planted[1])


def test_an_answer_knows_nothing_after_its_instant(found: QueueRecord) -> None:
    record = with_estimates(found)
    row = len(record.at_s) // 2
    at_s = float(record.at_s[row])
    late = record.leave_s > at_s
    columns = {name: getattr(record, name) for name in ("start_s", "leave_s")}
    changed = record._replace(**{name: np.where(late, at_s + 9e6, one) for name, one in columns.items()})
    told = [answers(cases, at_s, record.take(slice(row, row + 1)), at_s)[0] for cases in (record, changed)]
    np.testing.assert_array_equal(*told)


def test_a_record_is_stored_and_read_as_it_was(found: QueueRecord) -> None:
    again = record_in(table_of(found))
    assert again.queues.tolist() == found.queues.tolist() and again.as_of_s == found.as_of_s
    for one, other in zip((*again.cases, *again.outcomes), (*found.cases, *found.outcomes), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_record_of_another_format_is_not_read(found: QueueRecord, monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_of(found)
    monkeypatch.setattr("pipeline.schedule.starts.FORMAT", "waits_1")
    with pytest.raises(KeyError):
        record_in(table)


def test_without_a_record_the_draws_answer() -> None:
    queue = queue_at(LOG, MIDDLE_S)
    wait_s, way = starts(queue, np.arange(len(queue.waits)), None)
    assert set(way) == {"draws"} and wait_s.shape == (len(queue.waits), len(LEVELS))
    assert (np.diff(wait_s, axis=1) >= 0).all()


def test_with_perfect_runtimes_and_the_sites_order_the_simulation_is_the_machine() -> None:
    past = LOG.past
    # Limits that are the runtimes: nothing is drawn, and no later job can pass one that waits under EASY's head.
    exact = replace(LOG, past=replace(past, requested_s=past.runtime_s))
    queue = queue_at(exact, MIDDLE_S)
    head = simulated(queue, 1, orders=1)[1][0]
    ahead = past.procs[queue.runs][np.argsort(past.end_s[queue.runs])]
    ends_s = np.sort(past.end_s[queue.runs])
    free = CAPACITY - ahead.sum() + np.cumsum(ahead)
    by_hand = ends_s[np.argmax(free >= past.procs[queue.waits[0]])] - MIDDLE_S
    assert len(queue.waits) and head == pytest.approx(by_hand, abs=1)


def test_reported_priorities_are_the_first_order() -> None:
    queue = queue_at(LOG, MIDDLE_S)
    n = len(queue.waits)
    assert orders_of(queue)[0].tolist() == list(range(n))
    assert orders_of(replace(queue, priority=np.arange(n, dtype=float)))[0].tolist() == list(range(n))[::-1]


def test_pools_share_no_processor() -> None:
    apart = replace(LOG, pool=np.arange(len(LOG.past)) % 2, capacity=np.array([float(CAPACITY)] * 2))
    queue = queue_at(apart, MIDDLE_S)
    whole_s = simulated(queue, 1, orders=1)[1]
    for pool in (0, 1):
        alone_s = simulated(queue.of_pool(pool), 1, orders=1)[1]
        np.testing.assert_array_equal(whole_s[apart.pool[queue.waits] == pool], alone_s)
    assert whole_s.sum() < simulated(queue_at(LOG, MIDDLE_S), 1, orders=1)[1].sum()


def test_the_usual_capacity_is_what_was_held() -> None:
    assert usual_capacity(LOG.past, LOG.pool).tolist() == [CAPACITY]


def test_a_forest_tells_apart_what_differs_and_its_shares_add_up() -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=(600, 4))
    y = np.where(x[:, 1] > 0, 5.0, -5.0) + random.normal(size=600) * 0.1
    forest = grown(x, y)
    leaf = leaves(forest, x)
    share = similarity(leaf, 600, leaves(forest, np.array([[0.0, 2.0, 0.0, 0.0]]))[:, 0])
    assert share.sum() == pytest.approx(1.0)
    assert share[x[:, 1] > 0].sum() > 0.85
    assert (leaves(grown(x, y), x) == leaf).all()


def test_a_kaplan_meier_curve_by_hand() -> None:
    values, known = np.array([1.0, 2.0, 3.0, 4.0]), np.array([True, False, True, True])
    # Reached: 1/4 at 1; 1 - 3/4 * 1/2 = 5/8 at 3; all at 4.
    told = survivor_quantiles(values, known, np.ones(4), np.array([0.25, 0.26, 0.62, 0.63]))
    assert told.tolist() == [1.0, 3.0, 3.0, 4.0]


def test_levels_between_those_of_the_grid_lie_between_its_quantiles() -> None:
    said_s = np.linspace(0, 20_000, len(GRID))[None]
    (low, middle, high) = at_levels(said_s, np.array([0.5, 0.52, 0.55]))[0]
    assert low < middle < high
    assert at_levels(said_s, GRID)[0] == pytest.approx(said_s[0])


def test_a_short_log_has_no_record_and_asks_no_question() -> None:
    past = queue_history().take(np.arange(50))
    short = record_of_log(queue_log(past))
    assert len(short.cases.at_s) == 0 and len(record_in(table_of(short)).cases.quantiles_s) == 0
    assert float(past.submit_s[0]) >= BEGIN_S and isinstance(short.cases, Cases)


def test_estimates_are_of_the_jobs_that_the_state_knows_also_where_others_ended_later() -> None:
    """One job of a real log ended 64 s after the State's time, and every estimate was taken for that of another job."""
    past = LOG.past
    until_s = float(past.end_s[past.by_end[-20]])
    state = learn(past.known_by(until_s), until_s)
    has_estimate = np.isfinite(estimated(past, state)[:, 1])
    known = past.by_end[past.end_s[past.by_end] <= until_s]
    assert has_estimate[known[-100:]].all() and has_estimate.sum() <= len(known)
