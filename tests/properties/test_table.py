"""ESTIMATES written out and looked up answer as the backtest does, bit for bit, and never look ahead."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from pipeline.estimate.estimates import make_estimates, table_rows
from pipeline.estimate.history import History, history
from pipeline.estimate.stage import learn_state
from pipeline.evaluate.methods import table
from pipeline.ingest import ingest
from pipeline.settings import IngestSettings, SiteSettings
from pipeline.storage import read_table, write_table
from pipeline.tables import ESTIMATES
from tests.table_lookup import look_up, published_rows
from tests.unit.estimate.states import busy_log
from tests.unit.estimate.table_log import DAY_S, made_log, midnight_s, state_at

pytestmark = pytest.mark.slow


LOGS = Path(__file__).parents[3] / "shared" / "data" / "swf"
STALE_DAYS = (0.0, 1.0, 7.0)


def check_tables_of_some_days(jobs: pa.Table, n_days: int, stale_days: float, folder: Path) -> None:
    """What a run of a midnight publishes gives the jobs that read it the backtest's answers."""
    past = replace(history(jobs), stale_s=stale_days * DAY_S)
    found, read_at_s = table(past), midnight_s(past)
    for at_s in np.random.default_rng(1).choice(np.unique(read_at_s)[20:], n_days, replace=False):
        state, _ = learn_state(jobs, SiteSettings(), as_of_s=at_s)
        write_table(folder / "estimates.parquet", make_estimates(state, jobs, "run")[0], ESTIMATES)
        asked = np.flatnonzero(read_at_s == at_s)
        rows = published_rows(read_table(folder / "estimates.parquet", ESTIMATES))
        assert look_up(rows, past.take(asked)).tobytes() == found[asked].tobytes()
        assert np.isfinite(found[asked]).all()


@pytest.mark.parametrize("stale_days", STALE_DAYS)
def test_a_published_table_answers_as_the_backtest_does(stale_days: float, tmp_path: Path) -> None:
    """A fifth of the jobs are stopped at their limits; some have no user, no request, or are cancelled."""
    check_tables_of_some_days(busy_log(), 4, stale_days, tmp_path)


@pytest.mark.shared
@pytest.mark.skipif(not LOGS.is_dir(), reason="REAL TABLES NOT COMPARED: no folder shared/data beside the checkout")
@pytest.mark.parametrize("name", ["KTH-SP2-1996-2.1-cln", "CTC-SP2-1996-3.1-cln"])
def test_tables_of_real_logs_answer_as_the_backtest_does(name: str, tmp_path: Path) -> None:
    jobs = ingest([LOGS / f"{name}.swf.gz"], SiteSettings(), IngestSettings())[0].slice(0, 12_000)
    check_tables_of_some_days(jobs, 3, 0.0, tmp_path)


def test_rows_are_answered_each_by_itself() -> None:
    """The backtest answers only the rows that it reads: other rows change nothing."""
    past = made_log()
    state = state_at(past)
    whole, part = table_rows(state, past), table_rows(state, past.take(np.flatnonzero(past.codes["who"] == 3)))
    own = np.flatnonzero(np.isin(whole["job"], np.flatnonzero(past.codes["who"] == 3)) & (whole["chain_rank"] < 7))
    own = own[[name is not None for name in whole["who"][own]]]
    n_own = int((part["who"] != None).sum())  # noqa: E711 # of each element
    assert len(own) == n_own > 20
    for name in ("runtime_s_q50", "runtime_s_q95", "ratio_q80"):
        np.testing.assert_array_equal(whole[name][own], part[name][:n_own])


@pytest.mark.parametrize("stale_days", STALE_DAYS)
def test_what_had_not_happened_by_a_submit_changes_no_answer_to_it(stale_days: float) -> None:
    past = made_log(stale_days=stale_days)
    found, random = table(past), np.random.default_rng(0)
    for at_s in random.choice(past.submit_s, 5):
        known = past.known_by(at_s)
        assert table(known).tobytes() == found[: len(known)].tobytes()
        changed = table(with_another_future(past, at_s))
        assert changed[: len(known)].tobytes() == found[: len(known)].tobytes()


def with_another_future(past: History, at_s: float) -> History:
    """Jobs that had not ended take twice as long, and at least until after that time."""
    is_open = past.end_s > at_s
    end_s = np.where(is_open, past.end_s + past.runtime_s, past.end_s)
    return replace(past, end_s=end_s, runtime_s=np.where(is_open, 2 * past.runtime_s, past.runtime_s))


def test_a_table_that_knows_more_answers_otherwise() -> None:
    """So that the test above can fail."""
    past = made_log()
    at_s = float(past.submit_s[1500])
    changed = table(with_another_future(past, at_s)) != table(past)
    assert changed[past.submit_s > at_s + 2 * DAY_S].any()


def test_the_order_of_rows_in_the_log_is_no_part_of_it() -> None:
    past = made_log(500)
    other = replace(past, row=past.row[::-1].copy())
    assert table(past).tobytes() == table(other).tobytes()
