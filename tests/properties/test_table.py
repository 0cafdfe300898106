"""The table written out and looked up answers as the pass over a log does, bit for bit, and never looks ahead."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pipeline.estimate.estimate_rules import TableRules
from pipeline.estimate.history import History, history
from pipeline.estimate.nightly.table import learn_table, look_up, table, table_rows, update_table
from pipeline.estimate.nightly.table_state import TableState
from pipeline.ingest import ingest
from pipeline.settings import IngestSettings, SiteSettings
from tests.unit.estimate.table_log import DAY_S, SETTINGS, made_log, midnight_s

LOGS = Path(__file__).parents[3] / "shared" / "data" / "swf"
STALE_DAYS = (0.0, 1.0, 7.0)


def check_tables_of_some_days(past: History, settings: TableRules, n_days: int) -> None:
    """The table of a midnight, made from what was known then, answers the jobs that it served."""
    found, served = table(past, settings), midnight_s(past)
    days = np.random.default_rng(1).choice(np.unique(served)[20:], n_days, replace=False)
    for midnight in days:
        state = learn_table(past.known_by(midnight), settings)
        rows = table_rows(state, midnight, settings, past.stale_s)
        asked = np.flatnonzero(served == midnight)
        assert look_up(rows, past.take(asked)).tobytes() == found[asked].tobytes()


@pytest.mark.parametrize("stale_days", STALE_DAYS)
def test_a_table_written_out_answers_as_the_pass_does(stale_days: float) -> None:
    check_tables_of_some_days(made_log(stale_days=stale_days), SETTINGS, 8)


@pytest.mark.shared
@pytest.mark.skipif(not LOGS.is_dir(), reason="REAL TABLES NOT COMPARED: no folder shared/data beside the checkout")
@pytest.mark.parametrize("name", ["KTH-SP2-1996-2.1-cln", "CTC-SP2-1996-3.1-cln"])
@pytest.mark.parametrize("stale_days", STALE_DAYS)
def test_tables_of_real_logs_answer_as_the_pass_does(name: str, stale_days: float) -> None:
    past = real_log(name).take(np.arange(12_000))
    check_tables_of_some_days(replace(past, stale_s=stale_days * DAY_S), TableRules(), 3)


def real_log(name: str) -> History:
    return history(ingest([LOGS / f"{name}.swf.gz"], SiteSettings(), IngestSettings())[0])


def same(left: TableState, right: TableState) -> bool:
    theirs = right.to_arrays()
    return all(theirs[name].tobytes() == values.tobytes() for name, values in left.to_arrays().items())


@pytest.mark.parametrize("stale_days", STALE_DAYS)
@pytest.mark.parametrize("seed", range(3))
def test_a_log_in_two_parts_leaves_the_state_of_one(stale_days: float, seed: int) -> None:
    past = made_log(seed=seed, stale_days=stale_days)
    whole = learn_table(past, SETTINGS)
    for at_s in np.random.default_rng(seed).uniform(past.submit_s[0], past.submit_s[-1], 3):
        state = learn_table(past.known_by(at_s), SETTINGS)
        assert same(update_table(state, past, SETTINGS), whole)
        later = past.take(np.flatnonzero(past.end_s > at_s))
        assert same(update_table(state, later, SETTINGS), whole)


def test_every_night_leaves_the_state_of_one_pass() -> None:
    past = made_log(800, days=30, stale_days=1.0)
    state = learn_table(past.known_by(past.submit_s[0]), SETTINGS)
    for at_s in np.arange(past.submit_s[0], past.end_s.max() + DAY_S, DAY_S):
        state = update_table(state, past.known_by(at_s), SETTINGS)
    assert same(state, learn_table(past, SETTINGS))


@pytest.mark.parametrize("stale_days", STALE_DAYS)
def test_what_had_not_happened_by_a_submit_changes_no_answer_to_it(stale_days: float) -> None:
    past = made_log(stale_days=stale_days)
    found, random = table(past, SETTINGS), np.random.default_rng(0)
    for at_s in random.choice(past.submit_s, 5):
        known = past.known_by(at_s)
        assert table(known, SETTINGS).tobytes() == found[: len(known)].tobytes()
        assert table(with_another_future(past, at_s), SETTINGS)[: len(known)].tobytes() == found[: len(known)].tobytes()


def with_another_future(past: History, at_s: float) -> History:
    """Jobs that had not ended take twice as long, and at least until after that time."""
    is_open = past.end_s > at_s
    end_s = np.where(is_open, past.end_s + past.runtime_s, past.end_s)
    return replace(past, end_s=end_s, runtime_s=np.where(is_open, 2 * past.runtime_s, past.runtime_s))


def test_a_table_that_knows_more_answers_otherwise() -> None:
    """So that the test above can fail."""
    past = made_log()
    at_s = float(past.submit_s[1500])
    changed = table(with_another_future(past, at_s), SETTINGS) != table(past, SETTINGS)
    assert changed[past.submit_s > at_s + 2 * DAY_S].any()


def test_the_order_of_rows_in_the_log_is_no_part_of_it() -> None:
    past = made_log(500)
    assert table(past, SETTINGS).tobytes() == table(replace(past, row=past.row[::-1].copy()), SETTINGS).tobytes()
