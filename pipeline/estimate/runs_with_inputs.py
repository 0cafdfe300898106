"""A History as models over inputs need it."""

import numpy as np

from pipeline.core.arrays import Floats
from pipeline.core.estimate_settings import ForecastSettings
from pipeline.core.submitted_runs import SubmittedRuns
from pipeline.estimate.baselines.last_two import last_two
from pipeline.estimate.history import History
from pipeline.estimate.score import QUANTILES
from pipeline.estimate.walltime import walltime


def submitted_runs(past: History, settings: ForecastSettings, usual_s: Floats | None = None) -> SubmittedRuns:
    """The jobs of a History, with the rivals of a model: the mean of each submitter's last two jobs, and `walltime`.

    `usual_s` is the median of `walltime` as of each submit, where the caller has it. Without any input there is no
    model, and the rivals are not computed.
    """
    unknown = np.full(len(past), -1, np.int64)
    has_inputs = "inputs" in past.codes and bool((past.codes["inputs"] >= 0).any())
    rival = usual = np.full(len(past), np.nan)
    if has_inputs:
        rival = last_two(past, settings)[:, QUANTILES.index(0.5)]
        usual = walltime(past, settings)[:, QUANTILES.index(0.5)] if usual_s is None else usual_s
    return SubmittedRuns(
        past.submit_s, past.known_s, past.end_s, past.runtime_s, past.is_lower_bound, past.is_learnt, past.requested_s,
        rival, usual, past.procs, past.codes["who"], past.names["who"],
        past.codes.get("what", unknown), past.names.get("what", []),
        past.codes["inputs"] if has_inputs else unknown, past.names["inputs"] if has_inputs else [],
    )  # fmt: skip
