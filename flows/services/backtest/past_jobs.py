"""The past of a log that a template search learns from."""

from pathlib import Path

from flows.services.logs.flagged_jobs import jobs_of_table
from flows.services.run.prepare import prepare
from pipeline.core.errors import InputError
from pipeline.core.settings import RunSettings
from pipeline.core.text import printable
from pipeline.estimate.history import History
from pipeline.evaluate.backtest import past_of
from pipeline.run import run_plain


def past_jobs(given: Path) -> History:
    """The jobs that ran, from a table JOBS or from the cleaned logs of a config; InputError for fewer than two."""
    history = _history(given)
    if len(history) < 2:
        raise InputError(printable(str(given)), f"{len(history)} jobs that ran", "at least 2 to learn from")
    return history


def _history(given: Path) -> History:
    if given.suffix == ".parquet":
        return past_of(jobs_of_table(given), RunSettings())
    run, _ = prepare(given)
    jobs = next(tables["jobs_flagged"] for step, tables, _ in run_plain(run) if step.name == "clean")
    return past_of(jobs, run.settings)


def end_of_share_s(history: History, share: float) -> float:
    """The time, s since 1970, until which a search may look: the submit after this share of the jobs."""
    return float(history.submit_s[int(len(history) * share)] if share < 1 else history.end_s.max() + 1)
