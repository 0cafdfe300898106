"""A History as models over inputs need it."""

import numpy as np

from pipeline.core.estimate_settings import ForecastSettings
from pipeline.core.submitted_runs import SubmittedRuns
from pipeline.estimate.baselines.last_two import last_two
from pipeline.estimate.history import History
from pipeline.estimate.score import QUANTILES


def submitted_runs(past: History, settings: ForecastSettings) -> SubmittedRuns:
    """The jobs of a History, with the mean of each submitter's last two jobs; no input is known where it has none."""
    unknown = np.full(len(past), -1, np.int64)
    has_inputs = "inputs" in past.codes and bool((past.codes["inputs"] >= 0).any())
    rival = last_two(past, settings)[:, QUANTILES.index(0.5)] if has_inputs else np.full(len(past), np.nan)
    return SubmittedRuns(
        past.submit_s, past.known_s, past.end_s, past.runtime_s, past.is_lower_bound, past.is_learnt, past.requested_s,
        rival, past.procs, past.codes["who"], past.names["who"],
        past.codes.get("what", unknown), past.names.get("what", []),
        past.codes["inputs"] if has_inputs else unknown, past.names["inputs"] if has_inputs else [],
    )  # fmt: skip
