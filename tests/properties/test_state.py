"""What is scored is what is published: a State answers what the as-of pass answers, to the bit."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from pipeline.clean import clean
from pipeline.estimate.estimate_rules import EstimateRules
from pipeline.estimate.history import History, history
from pipeline.estimate.learnt_parts import empty
from pipeline.estimate.state import State
from pipeline.estimate.state_table import arrays_of
from pipeline.estimate.walltime import estimate, learn, update, walltime
from pipeline.ingest import ingest
from pipeline.settings import RunSettings
from tests.unit.evaluate.estimators import log

SHARED = Path(__file__).parents[3] / "shared" / "data" / "swf"
SETTINGS = EstimateRules()
RANDOM = np.random.default_rng(11)


def busy_log(n_jobs: int = 1500) -> pa.Table:
    """Jobs of which many wait, run for days, are cancelled in the queue, or name no user and ask for no time."""
    jobs = log(n_jobs, seed=5)
    never = RANDOM.random(n_jobs) < 0.1
    columns = {name: jobs.column(name).to_pylist() for name in ("state", "runtime_s", "end_s", "submit_s")}
    for place in np.flatnonzero(never):
        columns["state"][place], columns["runtime_s"][place] = "CANCELLED", 0.0
        columns["end_s"][place] = columns["submit_s"][place] + 20_000
    users = [None if RANDOM.random() < 0.1 else name for name in jobs.column("user").to_pylist()]
    asked = [None if RANDOM.random() < 0.2 else value for value in jobs.column("requested_s").to_pylist()]
    columns = columns | {"user": users, "requested_s": asked}
    for name, values in columns.items():
        place = jobs.schema.get_field_index(name)
        field = jobs.schema.field(place)
        typed = pa.array(values, pa.string()).dictionary_encode() if pa.types.is_dictionary(field.type) else values
        jobs = jobs.set_column(place, field, pa.array(typed, field.type) if isinstance(typed, list) else typed)
    return jobs


PAST = history(busy_log())
FOUND = walltime(PAST, SETTINGS)


def as_of(past: History, place: int, settings: EstimateRules) -> np.ndarray:
    """What a State of the jobs before this one says of it at its submit."""
    state = learn(past.take(np.arange(place)), settings, float(past.submit_s[place]))
    return estimate(state, past.take(np.array([place])), settings)[0]


@pytest.mark.parametrize("place", [0, 1, 7, *np.sort(RANDOM.choice(1500, 12, replace=False))])
def test_a_state_answers_what_the_pass_answers(place: int) -> None:
    assert as_of(PAST, place, SETTINGS).tobytes() == FOUND[place].tobytes()


def same(one: State, other: State) -> bool:
    first, second = arrays_of(one), arrays_of(other)
    return list(first) == list(second) and all(
        np.array_equal(first[name], second[name], equal_nan=first[name].dtype.kind == "f") for name in first
    )


@pytest.mark.parametrize("part_jobs", [1, 97, 700])
def test_a_log_in_parts_is_the_log(part_jobs: int) -> None:
    past = PAST.take(np.arange(300 if part_jobs == 1 else len(PAST)))
    whole = learn(past, SETTINGS, float(past.submit_s[-1]))
    assert same(learn(past, SETTINGS, float(past.submit_s[-1]), part_jobs=part_jobs), whole)


@pytest.mark.parametrize("place", [0, 3, *np.sort(RANDOM.choice(1500, 6, replace=False))])
def test_going_on_from_a_state_is_learning_afresh(place: int) -> None:
    at_s = float(PAST.submit_s[place]) + 1800.0
    until_s = float(PAST.submit_s[-1]) + 86_400.0
    ids = [f"here\0{row}\0{0}" for row in PAST.row]
    first = update(empty(), PAST, ids, SETTINGS, at_s)
    is_open = (PAST.submit_s <= at_s) & (PAST.end_s > at_s)
    later = np.flatnonzero(is_open | (PAST.submit_s > at_s))
    both = update(first, PAST.take(later), [ids[row] for row in later], SETTINGS, until_s)
    assert same(both, update(empty(), PAST, ids, SETTINGS, until_s))


def test_an_update_leaves_the_state_it_began_with_as_it_was() -> None:
    state = learn(PAST.take(np.arange(900)), SETTINGS, float(PAST.submit_s[900]))
    before = {name: value.copy() for name, value in arrays_of(state).items()}
    update(state, PAST.take(np.arange(900, 1500)), [str(row) for row in range(900, 1500)], SETTINGS, 1e12)
    after = arrays_of(state)
    assert all(np.array_equal(before[name], after[name], equal_nan=after[name].dtype.kind == "f") for name in before)


def test_questions_change_nothing_and_each_is_answered_by_itself() -> None:
    state = learn(PAST.take(np.arange(1200)), SETTINGS, float(PAST.submit_s[1200]))
    questions = replace(PAST.take(np.arange(1200, 1300)), submit_s=np.full(100, PAST.submit_s[1200]))
    together = estimate(state, questions, SETTINGS)
    alone = np.stack([estimate(state, questions.take(np.array([n])), SETTINGS)[0] for n in range(100)])
    assert together.tobytes() == alone.tobytes()


def test_a_stale_answer_is_that_of_the_midnight_s_state() -> None:
    stale = replace(PAST, stale_s=86_400.0)
    found = walltime(stale, SETTINGS)
    for place in (0, 400, 1499):
        known_s = float(stale.known_s[place])
        expected = estimate(learn(PAST, SETTINGS, known_s), PAST.take(np.array([place])), SETTINGS)[0]
        assert found[place].tobytes() == expected.tobytes()


def test_a_log_without_requests_has_finite_medians() -> None:
    past = history(log(400, requested_s=None))
    assert np.isfinite(walltime(past, SETTINGS)[past.ended > 0, 1]).all()


@pytest.mark.shared
@pytest.mark.parametrize(("name", "n_jobs"), [("KTH-SP2-1996-2.1-cln", 30_000), ("CTC-SP2-1996-3.1-cln", 10_000)])
def test_random_submits_of_real_logs(name: str, n_jobs: int) -> None:
    """A State that learns the jobs up to each of 150 submits, one after the other, answers what the pass answers."""
    path = SHARED / f"{name}.swf.gz"
    if not path.exists():
        pytest.skip(f"{path.name} is not beside the checkout")
    run = RunSettings()
    jobs, *_ = clean(ingest([path], run.site, run.ingest)[0], run.clean, run.site)
    past = history(jobs)
    past = past.take(np.arange(min(len(past), n_jobs)))
    found, settings = walltime(past, EstimateRules()), EstimateRules()
    state, n_learnt = empty(), 0
    ids = [str(row) for row in past.row]
    for place in np.sort(np.random.default_rng(3).choice(len(past), 150, replace=False)):
        at_s = float(past.submit_s[place])
        known = past.take(np.arange(place))
        is_new = (np.arange(place) >= n_learnt) | (known.end_s > state.as_of_s)
        rows = np.flatnonzero(is_new)
        state = update(state, known.take(rows), [ids[row] for row in rows], settings, at_s)
        n_learnt = place
        assert estimate(state, past.take(np.array([place])), settings)[0].tobytes() == found[place].tobytes()
