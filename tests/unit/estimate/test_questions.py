"""Questions about jobs that were never submitted: what they leave unknown, and how many jobs an answer rests on."""

from pathlib import Path

import numpy as np
import pytest

from pipeline.estimate.history import history
from pipeline.estimate.questions import Basis, basis_of, completed, first_text, questions_of
from pipeline.estimate.state import State, estimate, learn
from pipeline.ingest import ingest
from pipeline.settings import IngestSettings, SiteSettings
from tests.rows import jobs_of
from tests.unit.estimate.states import busy_log, learnt, plain, questions, same_bits

GIB = 1024.0**2


def state_of(**columns: object) -> State:
    """Forty jobs of ada, ten of bob."""
    rows = plain(100.0 + np.arange(50), user=["ada"] * 40 + ["bob"] * 10, requested_s=3600.0, **columns)
    return learn(history(jobs_of(rows)), 1e6)


def asked(state: State, **job: object) -> Basis:
    return basis_of(state, questions_of([job], np.array([state.as_of_s]), "UTC"))  # type: ignore[list-item]


def test_an_answer_says_how_many_jobs_it_rests_on() -> None:
    state = state_of()
    found = asked(state, user="ada", application="solver", procs=4, requested_s=3600.0)
    assert (found.is_known[0], found.n_submitter[0], found.n_kind[0], found.n_everybody[0]) == (True, 40, 40, 50)
    assert found.n_remembered[0] == 40 and not found.is_unusual_request[0]
    assert found.least_requested_s[0] == found.most_requested_s[0] == 3600 and found.usual_runtime_s[0] == 119
    new = asked(state, user="carl", application="solver", procs=4, requested_s=3600.0)
    assert (new.is_known[0], new.n_submitter[0], new.n_kind[0], new.n_everybody[0]) == (False, 0, 0, 50)
    assert asked(state, user="ada", application="another", procs=4).n_kind[0] == 0


@pytest.mark.parametrize(
    ("requested_s", "is_unusual"), [(1700.0, True), (1900.0, False), (7000.0, False), (7300.0, True)]
)
def test_a_request_more_than_twice_outside_the_user_s_is_unusual(requested_s: float, is_unusual: bool) -> None:
    found = asked(state_of(), user="ada", application="solver", procs=4, requested_s=requested_s)
    assert found.is_unusual_request[0] == is_unusual


def test_what_a_job_leaves_unknown_is_that_of_the_newest_job_alike() -> None:
    procs, memory = [4] * 39 + [8] + [16] * 10, [GIB] * 40 + [2 * GIB] * 10
    state = state_of(procs=procs, requested_mem_kib=memory)
    jobs = [{"user": "ada", "application": "solver"}, {"user": "bob"}, {"user": "carl"}, {"user": "ada", "procs": 2}]
    found = completed(state, questions_of(jobs, np.full(4, state.as_of_s), "UTC"))  # type: ignore[arg-type]
    assert found.procs.tolist() == [8, 16, 16, 2]
    assert found.requested_mem_kib.tolist() == [GIB, 2 * GIB, 2 * GIB, GIB]


def test_nodes_are_processors_where_their_number_is_known() -> None:
    assert questions_of([{"nodes": 3}], np.zeros(1), "UTC", 16.0).procs.tolist() == [48]


def test_a_program_and_a_user_are_the_first_text_that_is_known() -> None:
    columns = ("application", "job_name", "queue")
    assert first_text({"application": "solver", "queue": "q"}, columns) == "solver"
    assert first_text({"queue": "q"}, columns) == "queue q" and first_text({}, columns) is None


def test_a_hypothetical_job_is_answered_as_one_that_was_submitted() -> None:
    state, past = learnt(), history(busy_log(seed=5))
    places = np.arange(0, len(past), 50)
    submitted = questions(past, state, places)
    rows = busy_log(seed=5).take(past.row[places]).to_pylist()
    told = [row | {"procs": row["procs"]} for row in rows]
    hypothetical = questions_of(told, submitted.submit_s, "UTC")
    assert same_bits(estimate(state, hypothetical), estimate(state, submitted))


SAMPLE = Path(__file__).parents[3] / "data_samples" / "traps.swf"


def test_every_job_of_a_log_can_be_asked_again() -> None:
    past = history(ingest([SAMPLE], SiteSettings(), IngestSettings())[0])
    state = learn(past, float(past.submit_s[-1]))
    found = estimate(state, questions(past, state, np.arange(len(past))))
    assert (
        np.isfinite(found).all() and (np.diff(found[:, :6], axis=1) >= 0).all() and (found[:, 6] <= found[:, 0]).all()
    )
