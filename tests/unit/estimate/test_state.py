"""A State is the same after a trip through its table, and however its log was cut, at every age."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pipeline.errors import InputError
from pipeline.estimate import state as state_module
from pipeline.estimate.history import history
from pipeline.estimate.stage import learn_state, update_state
from pipeline.estimate.state import AGES_S, FORMAT, RECOGNISED_S, estimate, learn, no_state, state_table, update
from pipeline.settings import SiteSettings
from pipeline.storage import read_table, write_table
from pipeline.tables import STATE
from tests.unit.estimate.states import (
    DAY_S,
    as_loaded,
    as_of,
    busy_log,
    differing,
    learnt,
    questions,
    same_bits,
)

SITE = SiteSettings(name="here", timezone="Europe/Stockholm")


def test_a_state_is_the_same_to_the_bit_after_a_trip_through_its_file(tmp_path: Path) -> None:
    table = state_table(learnt())
    first = write_table(tmp_path / "1.parquet", table, STATE)
    state = as_loaded(read_table(first, STATE))
    second = write_table(tmp_path / "2.parquet", state_table(state), STATE)
    assert first.read_bytes() == second.read_bytes()
    past = history(busy_log(seed=3))
    asked = questions(past, learnt(), np.arange(0, len(past), 3))
    assert same_bits(estimate(state, asked), estimate(learnt(), asked))


def test_the_state_of_no_log_is_a_table_too() -> None:
    table = state_table(no_state())
    state = as_loaded(table)
    assert state.as_of_s == -np.inf and not differing(table, state_table(state))


@pytest.mark.parametrize(
    ("name", "values", "sentence"),
    [
        ("format", [FORMAT + 83], f"found a state of format {FORMAT + 83}, expected format {FORMAT}; run again"),
        ("age1.memory.places", None, f"found a state without age1.memory.places, expected one of format {FORMAT}"),
    ],
)
def test_a_state_of_another_format_is_refused(name: str, values: list[object] | None, sentence: str) -> None:
    rows = state_table(no_state()).to_pylist()
    kept = [row for row in rows if row["array"] != name or values is not None]
    for row in kept:
        row["integers"] = values if row["array"] == name else row["integers"]
    with pytest.raises(InputError, match=sentence):
        as_loaded(pa.Table.from_pylist(kept, schema=STATE.schema()))


@settings(max_examples=8, deadline=None)
@given(st.floats(0.05, 0.95), st.integers(0, 3), st.booleans())
@example(0.796875, 1, False)  # a job that runs at the cut, of a runtime with a fraction
def test_a_log_in_two_parts_gives_the_state_of_the_whole(share: float, seed: int, repeats_all: bool) -> None:
    """Through its table, at all ages, with jobs that wait or run at the cut."""
    jobs = busy_log(seed=seed)
    submits = jobs.column("submit_s").to_numpy()
    cut_s = float(submits[0] + share * (submits[-1] - submits[0]))
    end_s = cut_s + 20 * DAY_S if share < 0.5 else None
    later = jobs if repeats_all else jobs.filter(pa.array(jobs.column("end_s").to_numpy() > cut_s))
    before, _ = learn_state(as_of(jobs, cut_s), SITE, as_of_s=cut_s)
    found, report = update_state(before, later, end_s)
    whole, whole_report = learn_state(jobs, SITE, as_of_s=end_s)
    assert not differing(found, whole)
    assert set(as_loaded(whole).ages) == set(AGES_S)
    assert report.check().facts["n_late"] == 0 and report.facts["as_of_s"] == whole_report.check().facts["as_of_s"]


def test_many_nights_give_the_state_of_the_whole() -> None:
    """A repeated record changes nothing; one of a job that was open replaces what was known of it."""
    jobs = busy_log(seed=1)
    cuts = np.random.default_rng(0).uniform(2 * DAY_S, 55 * DAY_S, 6)
    table, _ = learn_state(as_of(jobs, 0.0), SITE, as_of_s=0.0)
    for cut_s in sorted(cuts):
        table, _ = update_state(table, as_of(jobs, cut_s), cut_s)
    table, _ = update_state(table, jobs)
    assert not differing(table, learn_state(jobs, SITE)[0])
    again, report = update_state(table, jobs)
    assert not differing(table, again) and report.kept.rows == 0


def test_the_state_does_not_depend_on_how_the_log_is_gone_through(monkeypatch: pytest.MonkeyPatch) -> None:
    past = history(busy_log(seed=2))
    whole = state_table(learn(past, 40.0 * DAY_S))
    for part_jobs in (17, 400):
        monkeypatch.setattr(state_module, "PART_JOBS", part_jobs)
        assert not differing(whole, state_table(learn(past, 40.0 * DAY_S)))


def test_an_update_leaves_the_state_it_began_with_as_it_was() -> None:
    past = history(busy_log())
    state = learn(past.take(np.arange(900)), float(past.submit_s[900]))
    before = state_table(state)
    update(state, past.take(np.arange(900, 1500)), [f"later {row}" for row in range(900, 1500)], 1e12)
    assert not differing(before, state_table(state))


def test_a_record_that_comes_late_is_learnt_once_and_counted() -> None:
    jobs = busy_log(seed=1)
    ended = np.flatnonzero((jobs.column("end_s").to_numpy() < 40 * DAY_S) & (jobs.column("flag").is_null().to_numpy()))
    late, too_late = int(ended[-1]), int(ended[3])
    kept = np.setdiff1d(np.arange(jobs.num_rows), [late, too_late])
    before, _ = learn_state(as_of(jobs.take(kept), 41.0 * DAY_S), SITE, as_of_s=41.0 * DAY_S)
    table, report = update_state(before, jobs.take([too_late, late]), 41.0 * DAY_S)
    assert 41 * DAY_S - jobs.column("end_s")[too_late].as_py() > RECOGNISED_S
    assert (report.facts["n_late"], report.kept.rows, report.set_aside["too_late"].rows) == (1, 1, 1)
    again, report = update_state(table, jobs.take([late]), 41.0 * DAY_S)
    assert report.set_aside["known_to_be_over"].rows == 1 and not differing(table, again)
    assert as_loaded(table).names.n_submits == as_loaded(before).names.n_submits + 1


def test_a_state_does_not_go_back() -> None:
    table, _ = learn_state(busy_log(), SITE, as_of_s=40.0 * DAY_S)
    with pytest.raises(InputError, match="found a state as of"):
        update_state(table, busy_log(), 39.0 * DAY_S)


def test_the_site_and_the_report_go_with_a_state() -> None:
    table, report = learn_state(busy_log(), SITE, "0123", 40.0 * DAY_S)
    state = as_loaded(table)
    assert state.as_of_s == report.facts["as_of_s"] == 40.0 * DAY_S
    assert state.site["name"] == "here" and state.site["timezone"] == "Europe/Stockholm"
    assert state.site["names"] == "0123" and state.site["columns"].split()[:2] == ["user", "user_group"]
    assert report.check().set_aside["after_as_of"].rows > 0 and 0.8 < report.facts["coverage_q95"] <= 1
    assert state.names.n_submits == report.kept.rows


def test_each_question_is_answered_by_itself_and_changes_nothing() -> None:
    """Also where several are from users, or of programs, that the State does not know, and at all ages."""
    state, past = learnt(), history(busy_log(seed=5, n_users=200))
    assert len(set(past.names["user"]) - set(state.names.texts["who"])) > 20
    asked = questions(past, state, np.arange(0, len(past), 25))
    asked = replace(asked, submit_s=state.as_of_s + 0.7 * DAY_S * (np.arange(len(asked)) // 20))
    before, together = state_table(state), estimate(state, asked)
    alone = np.concatenate([estimate(state, asked.take(np.array([job]))) for job in range(len(asked))])
    assert same_bits(together, alone) and same_bits(together, estimate(state, asked))
    many = asked.take(np.arange(len(asked)).repeat(300))
    assert same_bits(together, estimate(state, many)[::300])
    assert not differing(before, state_table(state))
