"""What is scored is what is published: a State answers what the as-of pass answers, to the bit, live and read late."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pipeline.arrays import Floats
from pipeline.clean import clean
from pipeline.estimate.history import History, history
from pipeline.estimate.state import AGES_S, estimate, learn, no_state, update, walltime
from pipeline.ingest import ingest
from pipeline.settings import RunSettings
from tests.rows import jobs_of
from tests.unit.estimate.states import DAY_S, busy_log
from tests.unit.evaluate.estimators import log

pytestmark = pytest.mark.slow


SHARED = Path(__file__).parents[3] / "shared" / "data" / "swf"
RANDOM = np.random.default_rng(11)
PAST = history(busy_log(seed=7))
FOUND = walltime(PAST)


def test_the_log_is_hard_enough() -> None:
    """A fifth of the jobs stopped at their limit; jobs that wait, are cancelled, ask for no time or have no user."""
    assert 0.15 < PAST.is_lower_bound[PAST.has_run].mean() < 0.3
    assert (~PAST.has_run).any() and np.isnan(PAST.requested_s).any() and (PAST.codes["user"] < 0).any()
    assert (PAST.start_s[PAST.has_run] > PAST.submit_s[PAST.has_run]).any() and len(np.unique(PAST.submit_s)) < len(
        PAST
    )


def as_of(past: History, place: int) -> Floats:
    """What a State of the jobs before this one says of it at its submit."""
    state = learn(past.take(np.arange(place)), float(past.submit_s[place]))
    return estimate(state, past.take(np.array([place])).as_submitted())[0, :6]


@pytest.mark.parametrize("place", [0, 1, 7, *np.sort(RANDOM.choice(1500, 20, replace=False))])
def test_a_state_answers_what_the_pass_answers(place: int) -> None:
    assert as_of(PAST, place).tobytes() == FOUND[place].tobytes()


def test_the_state_of_the_whole_log_answers_one_job_at_a_time_as_the_pass_does() -> None:
    """Records of all jobs, also of those that were submitted later: the State knows what was known at its time."""
    for place in RANDOM.choice(1500, 12, replace=False):
        at_s = float(PAST.submit_s[place]) - 0.5
        state, earlier = learn(PAST, at_s), np.flatnonzero(PAST.submit_s < at_s)
        alone = replace(PAST.take(np.array([place])).as_submitted(), submit_s=np.array([at_s]))
        whole = walltime(PAST.take(np.append(earlier, place)).known_by(at_s + 1))[-1]
        assert estimate(state, alone)[0, :6].tobytes() == whole.tobytes()


@pytest.mark.parametrize("age_s", AGES_S[1:])
def test_a_job_that_is_submitted_later_is_answered_from_what_the_state_knows(age_s: float) -> None:
    """Nothing that is known after the State's time changes what a table of that time says."""
    at_s = 40.0 * DAY_S
    later = (PAST.end_s > at_s) & PAST.has_run
    runtime_s = np.where(later, PAST.runtime_s * 5, PAST.runtime_s)
    other = replace(PAST, runtime_s=runtime_s, end_s=np.where(later, PAST.start_s + runtime_s, PAST.end_s))
    asked = PAST.take(np.flatnonzero(PAST.submit_s > at_s)[:50]).as_submitted()
    asked = replace(asked, submit_s=np.full(50, at_s + age_s - 3600.0))
    found, again = (estimate(learn(one, at_s), asked) for one in (PAST, other))
    assert found.tobytes() == again.tobytes()
    assert found.tobytes() != estimate(learn(other, at_s + age_s), asked).tobytes()


def answers_of_ages(past: History) -> dict[float, Floats]:
    found: dict[float, list[Floats]] = {}
    learn(past, found=found)
    return {age_s: np.concatenate(parts) for age_s, parts in found.items()}


def test_what_an_age_answers_rests_on_ends_that_were_known_so_long_before() -> None:
    known = answers_of_ages(PAST)
    for age_s in AGES_S:
        for place in (400, 900, 1400):
            is_later = (PAST.end_s > PAST.submit_s[place] - age_s) & PAST.has_run
            runtime_s = np.where(is_later, 7 * PAST.runtime_s, PAST.runtime_s)
            end_s = np.where(is_later, PAST.end_s + 6 * PAST.runtime_s, PAST.end_s)
            found = answers_of_ages(replace(PAST, runtime_s=runtime_s, end_s=end_s))[age_s]
            assert found[place].tobytes() == known[age_s][place].tobytes()
            assert found[place:].tobytes() != known[age_s][place:].tobytes()


@pytest.mark.parametrize("stale_s", [0.0, DAY_S, 7.0 * DAY_S])
def test_a_stale_answer_is_that_of_the_midnight_s_state(stale_s: float) -> None:
    stale = replace(PAST, stale_s=stale_s)
    found = walltime(stale)
    for place in (0, 400, 1499):
        known_s = float(stale.known_s[place])
        expected = estimate(learn(PAST, known_s), PAST.take(np.array([place])).as_submitted())[0, :6]
        assert found[place].tobytes() == expected.tobytes()


def test_going_on_from_a_state_is_learning_afresh() -> None:
    """Jobs one by one: each update has one new job and the records of those that were open."""
    past, ids = PAST.take(np.arange(120)), [f"job {row}" for row in range(120)]
    state = no_state()
    for place in range(120):
        is_new = (np.arange(120) == place) | ((np.arange(120) < place) & (past.end_s > state.as_of_s))
        rows = np.flatnonzero(is_new)
        state = update(state, past.take(rows), [ids[row] for row in rows], float(past.submit_s[place]))
        if place % 17 == 0:
            asked = PAST.take(np.array([200])).as_submitted()
            asked = replace(asked, submit_s=np.array([state.as_of_s]))
            whole = learn(past, state.as_of_s, ids)
            assert estimate(state, asked).tobytes() == estimate(whole, asked).tobytes()


def test_a_log_without_requests_has_finite_medians() -> None:
    past = history(log(400, requested_s=None))
    assert np.isfinite(walltime(past)[past.ended > 0, 1]).all()


def test_a_job_that_never_started_is_no_run() -> None:
    """Two hundred jobs that leave the queue after a second change no answer."""
    rows = [
        {"submit_s": 10_000 * k, "start_s": 10_000 * k, "end_s": 10_000 * k + 900, "runtime_s": 900.0}
        for k in range(60)
    ]
    never = {"start_s": None, "runtime_s": None, "state": "CANCELLED"}
    gone = [{"submit_s": 590_001 + k, "end_s": 590_002 + k} | never for k in range(200)]
    asked = {"submit_s": 600_000, "start_s": 600_000, "end_s": 600_001, "runtime_s": 1.0}
    with_gone, without = (walltime(history(jobs_of([*rows, *more, asked])))[-1] for more in (gone, []))
    assert with_gone.tobytes() == without.tobytes() and with_gone[1] == 900


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
    found, state, n_learnt = walltime(past), no_state(), 0
    ids = [str(row) for row in past.row]
    for place in np.sort(np.random.default_rng(3).choice(len(past), 150, replace=False)):
        at_s = float(past.submit_s[place])
        known = past.take(np.arange(place))
        rows = np.flatnonzero((np.arange(place) >= n_learnt) | (known.end_s > state.as_of_s))
        state = update(state, known.take(rows), [ids[row] for row in rows], at_s)
        n_learnt = place
        assert estimate(state, past.take(np.array([place])))[0, :6].tobytes() == found[place].tobytes()
