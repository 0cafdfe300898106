"""The table written out and looked up answers as the pass over a log does, bit for bit, and never looks ahead."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pipeline.estimate.history import History, history
from pipeline.estimate.nightly.rows import SERVED_DAYS
from pipeline.estimate.nightly.table import Rows, estimates, look_up, nightly_table, published_rows, table_rows
from pipeline.ingest import ingest
from pipeline.settings import IngestSettings, SiteSettings
from pipeline.storage import read_table, write_table
from pipeline.tables import ESTIMATES
from tests.unit.estimate.table_log import DAY_S, SETTINGS, made_log, midnight_s, state_at

LOGS = Path(__file__).parents[3] / "shared" / "data" / "swf"
STALE_DAYS = (0.0, 1.0, 7.0)


def check_tables_of_some_days(past: History, n_days: int, folder: Path) -> None:
    """The published table of a midnight, made from what was known then, answers the jobs that it served."""
    found, served = nightly_table(past, SETTINGS), midnight_s(past)
    days = np.random.default_rng(1).choice(np.unique(served)[20:], n_days, replace=False)
    for midnight in days:
        rows = published(table_rows(state_at(past, midnight), SETTINGS), folder)
        asked = np.flatnonzero(served == midnight)
        assert look_up(rows, past.take(asked)).tobytes() == found[asked].tobytes()


def published(rows: Rows, folder: Path) -> Rows:
    """The rows as they are read back from a Parquet file."""
    write_table(folder / "estimates.parquet", estimates(rows, "here", "run"), ESTIMATES)
    return published_rows(read_table(folder / "estimates.parquet", ESTIMATES))


@pytest.mark.parametrize("stale_days", STALE_DAYS)
def test_a_table_written_out_answers_as_the_backtest_does(stale_days: float, tmp_path: Path) -> None:
    check_tables_of_some_days(made_log(stale_days=stale_days), 4, tmp_path)


@pytest.mark.shared
@pytest.mark.skipif(not LOGS.is_dir(), reason="REAL TABLES NOT COMPARED: no folder shared/data beside the checkout")
@pytest.mark.parametrize("name", ["KTH-SP2-1996-2.1-cln", "CTC-SP2-1996-3.1-cln"])
def test_tables_of_real_logs_answer_as_the_backtest_does(name: str, tmp_path: Path) -> None:
    past = real_log(name).take(np.arange(12_000))
    check_tables_of_some_days(replace(past, stale_s=SERVED_DAYS * DAY_S), 3, tmp_path)


def real_log(name: str) -> History:
    return history(ingest([LOGS / f"{name}.swf.gz"], SiteSettings(), IngestSettings())[0])


@pytest.mark.parametrize("stale_days", STALE_DAYS)
def test_what_had_not_happened_by_a_submit_changes_no_answer_to_it(stale_days: float) -> None:
    past = made_log(stale_days=stale_days)
    found, random = nightly_table(past, SETTINGS), np.random.default_rng(0)
    for at_s in random.choice(past.submit_s, 5):
        known = past.known_by(at_s)
        assert nightly_table(known, SETTINGS).tobytes() == found[: len(known)].tobytes()
        changed = nightly_table(with_another_future(past, at_s), SETTINGS)
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
    changed = nightly_table(with_another_future(past, at_s), SETTINGS) != nightly_table(past, SETTINGS)
    assert changed[past.submit_s > at_s + 2 * DAY_S].any()


def test_the_order_of_rows_in_the_log_is_no_part_of_it() -> None:
    past = made_log(500)
    other = replace(past, row=past.row[::-1].copy())
    assert nightly_table(past, SETTINGS).tobytes() == nightly_table(other, SETTINGS).tobytes()
