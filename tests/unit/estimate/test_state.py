"""A State is the same after a trip through its table, and however its log was cut."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from flows.services.published.published_folder import read_columns
from pipeline.arrays import list_values, lists
from pipeline.errors import InputError
from pipeline.estimate.chains import SHARE
from pipeline.estimate.ensemble import CHAIN_QUERIES
from pipeline.estimate.history import history
from pipeline.estimate.learnt_parts import empty
from pipeline.estimate.stage import learn_state, update_state
from pipeline.estimate.state import RECOGNISED_S
from pipeline.estimate.state_table import FORMAT, arrays_in, arrays_of, loaded_state, state_table
from pipeline.estimate.walltime import estimate, learn
from pipeline.settings import SiteSettings
from pipeline.storage import read_table, write_table
from pipeline.tables import STATE
from tests.unit.estimate.states import DAY_S, SETTINGS, busy_log, learnt, questions, same_bits

SITE = SiteSettings(name="here", timezone="Europe/Stockholm")


def differing(one: pa.Table, other: pa.Table) -> list[str]:
    """The arrays of two states that differ in any bit."""
    first, second = arrays_in(one), arrays_in(other)
    assert list(first) == list(second)
    same = {
        name: list(values) == list(second[name]) if values.dtype == object else same_bits(values, second[name])
        for name, values in first.items()
    }
    return [name for name, is_same in same.items() if not is_same]


def as_of(jobs: pa.Table, at_s: float) -> pa.Table:
    """The records of jobs submitted by a time as the log has them then: open jobs without what comes later."""
    rows = jobs.to_pylist()
    known = [row for row in rows if row["submit_s"] <= at_s]
    for row in known:
        if row["end_s"] > at_s:
            has_started = row["start_s"] is not None and row["start_s"] <= at_s
            row.update(end_s=None, runtime_s=None, is_lower_bound=None, state="RUNNING")
            row.update({} if has_started else {"state": "PENDING", "start_s": None})
    return pa.Table.from_pylist(known, schema=jobs.schema)


def test_a_state_is_the_same_to_the_bit_after_a_trip_through_its_file(tmp_path: Path) -> None:
    table = state_table(learnt(), SETTINGS)
    first = write_table(tmp_path / "1.parquet", table, STATE)
    state, held = loaded_state(read_columns(first, STATE), "here")
    assert held == SETTINGS and not differing(table, state_table(state, held))
    second = write_table(tmp_path / "2.parquet", state_table(state, held), STATE)
    assert first.read_bytes() == second.read_bytes()
    assert not differing(table, read_table(first, STATE))


@pytest.mark.parametrize("goes_on", [True, False])
def test_a_loaded_state_answers_as_the_state_it_was_made_from(goes_on: bool) -> None:
    past = history(busy_log(seed=3))
    state, held = loaded_state(state_table(learnt(), SETTINGS), "here", goes_on=goes_on)
    asked = questions(past, learnt(), np.arange(0, len(past), 3))
    assert same_bits(estimate(state, asked, held), estimate(learnt(), asked, SETTINGS))


def test_the_state_of_no_log_is_a_table_too() -> None:
    state, _ = loaded_state(state_table(empty(), SETTINGS), "here")
    assert state.as_of_s == -np.inf and list(arrays_of(state)) == list(arrays_of(empty()))


@given(st.lists(st.none() | st.lists(st.floats(width=64), max_size=4)))
def test_lists_of_numbers_come_back_bit_for_bit(rows: list[list[float] | None]) -> None:
    given_rows = [None if row is None else np.array(row, np.float64) for row in rows]
    found = list_values(lists(given_rows, pa.float64()))
    assert [row if row is None else row.tobytes() for row in found] == [
        row if row is None else row.tobytes() for row in given_rows
    ]


@given(st.lists(st.none() | st.lists(st.booleans(), max_size=9)), st.lists(st.none() | st.lists(st.text(max_size=3))))
def test_lists_of_truths_and_texts_come_back(flags: list[list[bool] | None], words: list[list[str] | None]) -> None:
    for rows, dtype, job_class in ((flags, np.bool_, pa.bool_()), (words, object, pa.string())):
        encodable = [row for row in rows if row is None or all(str(one).isascii() for one in row)]
        found = list_values(lists([None if row is None else np.array(row, dtype) for row in encodable], job_class))
        assert [None if row is None else row.tolist() for row in found] == encodable


@pytest.mark.parametrize(
    ("name", "values", "sentence"),
    [
        ("format", [99], f"found a state of format 99, expected format {FORMAT}; run again to learn it anew"),
        ("live.rungs", None, f"found a state without live.rungs, expected one of format {FORMAT}"),
        ("settings", ['{"colour": 1}'], "settings that do not fit"),
    ],
)
def test_a_state_of_another_format_is_refused(name: str, values: list[object] | None, sentence: str) -> None:
    rows = state_table(empty(), SETTINGS).to_pylist()
    kept = [row for row in rows if row["array"] != name or values is not None]
    for row in kept:
        if row["array"] == name:
            row["integers" if name == "format" else "texts"] = values
    with pytest.raises(InputError, match=sentence):
        loaded_state(pa.Table.from_pylist(kept, schema=STATE.schema()), "here")


def test_no_question_needs_what_the_table_leaves_out() -> None:
    assert all(question.statistic != SHARE for question in CHAIN_QUERIES)


@settings(max_examples=8, deadline=None)
@given(st.floats(0.05, 0.95), st.integers(0, 3), st.booleans())
@example(0.796875, 1, False)  # a job that runs at the cut, of a runtime with a fraction
def test_a_log_in_two_parts_gives_the_state_of_the_whole(share: float, seed: int, repeats_all: bool) -> None:
    jobs = busy_log(seed=seed)
    submits = jobs.column("submit_s").to_numpy()
    cut_s = float(submits[0] + share * (submits[-1] - submits[0]))
    end_s = cut_s + 20 * DAY_S if share < 0.5 else None
    first = as_of(jobs, cut_s)
    later = jobs if repeats_all else jobs.filter(pa.array(jobs.column("end_s").to_numpy() > cut_s))
    before, _ = learn_state(first, SITE, SETTINGS, as_of_s=cut_s)
    found, report = update_state(before, later, end_s)
    whole, whole_report = learn_state(jobs, SITE, SETTINGS, as_of_s=end_s)
    assert not differing(found, whole)
    assert report.check().facts["n_late"] == 0 and report.facts["as_of_s"] == whole_report.check().facts["as_of_s"]


def test_many_nights_give_the_state_of_the_whole() -> None:
    jobs = busy_log(seed=1)
    cuts = np.random.default_rng(0).uniform(2 * DAY_S, 55 * DAY_S, 6)
    table, _ = learn_state(as_of(jobs, 0.0), SITE, SETTINGS, as_of_s=0.0)
    for cut_s in sorted(cuts):
        table, _ = update_state(table, as_of(jobs, cut_s), cut_s)
    table, _ = update_state(table, jobs)
    assert not differing(table, learn_state(jobs, SITE, SETTINGS)[0])


def test_the_state_does_not_depend_on_how_the_log_is_gone_through() -> None:
    past = history(busy_log(seed=2))
    whole = state_table(learn(past, SETTINGS, 40.0 * DAY_S), SETTINGS)
    for part_jobs in (17, 400):
        assert not differing(whole, state_table(learn(past, SETTINGS, 40.0 * DAY_S, part_jobs), SETTINGS))


def test_a_record_that_comes_late_is_learnt_once_and_counted() -> None:
    jobs = busy_log(seed=1)
    ended = np.flatnonzero((jobs.column("end_s").to_numpy() < 40 * DAY_S) & (jobs.column("flag").is_null().to_numpy()))
    late, too_late = int(ended[-1]), int(ended[3])
    kept = np.setdiff1d(np.arange(jobs.num_rows), [late, too_late])
    before, _ = learn_state(as_of(jobs.take(kept), 41.0 * DAY_S), SITE, SETTINGS, as_of_s=41.0 * DAY_S)
    table, report = update_state(before, jobs.take([too_late, late]), 41.0 * DAY_S)
    assert 41 * DAY_S - jobs.column("end_s")[too_late].as_py() > RECOGNISED_S
    assert (report.facts["n_late"], report.kept.rows, report.set_aside["too_late"].rows) == (1, 1, 1)
    again, report = update_state(table, jobs.take([late]), 41.0 * DAY_S)
    assert report.set_aside["known_to_be_over"].rows == 1 and not differing(table, again)
    first, second = (loaded_state(one, "here")[0] for one in (before, table))
    assert second.n_submits == first.n_submits + 1


def test_a_state_does_not_go_back() -> None:
    table, _ = learn_state(busy_log(), SITE, SETTINGS, as_of_s=40.0 * DAY_S)
    with pytest.raises(InputError, match="found a state as of"):
        update_state(table, busy_log(), 39.0 * DAY_S)


def test_what_a_state_was_learnt_with_goes_with_it() -> None:
    table, report = learn_state(busy_log(), SITE, SETTINGS, "0123", 40.0 * DAY_S)
    state, held = loaded_state(table, "here")
    assert held == SETTINGS and state.as_of_s == report.facts["as_of_s"] == 40.0 * DAY_S
    assert state.site["name"] == "here" and state.site["timezone"] == "Europe/Stockholm"
    assert state.site["names"] == "0123" and state.site["columns"].split()[:2] == ["user", "user_group"]
    assert report.check().set_aside["after_as_of"].rows > 0 and 0.8 < report.facts["coverage_q95"] <= 1
    assert replace(state, site={}).n_submits == report.kept.rows
