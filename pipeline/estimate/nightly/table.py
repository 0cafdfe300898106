"""Estimates for schedulers that can only look up: a table of runtime quantiles, remade every midnight (UTC).

A job is answered by the first of these rows that is present, for its user u, application a, queue q, requested runtime
r and processors p: uaqrp, uarp, urp, uar, ur, up, u, r, all; rows that are ratios are multiplied by the request, and
the median is at most the request. A row is made of the user's latest jobs, weighted by how alike and how recent they
are, with few of everybody's; its outer quantiles are calibrated by replaying past tables at the age they were served.
"""

from pipeline.core.arrays import Floats
from pipeline.core.estimate_settings import TableSettings
from pipeline.estimate.history import History
from pipeline.estimate.nightly.as_of_pass import answered, learnt
from pipeline.estimate.nightly.rows import look_up, table_rows
from pipeline.estimate.nightly.table_state import TableState, empty_state

__all__ = ["TableState", "learn_table", "look_up", "table", "table_rows", "update_table"]


def table(history: History, settings: TableSettings) -> Floats:
    """(jobs, 6) quantiles, s, of the last midnight's table at least `stale_s` old; NaN before any job had ended."""
    return answered(history, settings)[0]


def learn_table(history: History, settings: TableSettings) -> TableState:
    """The table's state after these jobs, to be served `stale_s` after it is made."""
    return update_table(empty_state(settings), history, settings)


def update_table(state: TableState, later: History, settings: TableSettings) -> TableState:
    """The state after later jobs: those submitted since, and those that had not ended by then.

    A job whose end the state has learnt is left out, so that exports may overlap. A job that had been submitted but was
    missing from the earlier log is replayed with the oldest available table.
    """
    return learnt(state, later, settings)
