"""What `walltime backtest --predictions` does: logs in, published predictions scored on the jobs that came later."""

from typing import Any

from flows.services.backtest.backtesting import Task
from flows.services.logs.flagged_jobs import flagged_jobs
from flows.services.progress import running_stage
from pipeline.core.errors import InputError
from pipeline.core.text import printable
from pipeline.evaluate.later_figures import Scored, figures, trade_off
from pipeline.evaluate.later_rolling import later_scores

LAST_SHARE = 0.98
"""Cuts lie between the training share and this share of the jobs, in order of submit."""


def score_predictions(task: Task) -> dict[float, Scored]:
    """Scores by days ahead (1, 7, 30) of the predictions that daily runs over a log would have published.

    InputError where no later job can be scored.
    """
    settings = task.settings
    name = printable(task.log, 40)
    flagged, _ = flagged_jobs(task.paths, settings, task.log)
    with running_stage(f"{name}: predict"):
        found = later_scores(flagged, settings, (settings.backtest.train_share, LAST_SHARE))
    if not found:
        raise InputError(name, f"{flagged.num_rows} jobs, none to score", "jobs of groups that had run before")
    return found


def subsets_of(scored: Scored) -> dict[str, Scored]:
    """All scored jobs; those on counts that had run and had not run; those on rows whose reliability is ok."""
    return {
        "all": scored,
        "ran before": scored.take(scored.is_seen),
        "never ran": scored.take(~scored.is_seen),
        "ok": scored.take(scored.is_ok),
    }


def scores_as_dicts(found: dict[float, Scored]) -> list[dict[str, Any]]:
    """Per number of days ahead the figures of each subset, and the trade-off of `ok`."""
    return [
        {"days": days, "trade_off": trade_off(one), **{name: figures(part) for name, part in subsets_of(one).items()}}
        for days, one in found.items()
    ]
