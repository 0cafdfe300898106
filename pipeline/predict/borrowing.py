"""How much a problem size borrows from another one: decided from the two series alone.

Two points of a target do not determine how its overhead grows, so the joint fit (across.py) may predict a gain that
neither series shows. The guard limits the joint fit there, and pools it with the target's own prediction everywhere.
"""

import numpy as np

from pipeline.core.arrays import Floats
from pipeline.core.prediction_task import PredictionTask
from pipeline.core.screen_settings import AcrossSettings
from pipeline.predict.average_predictors import PREDICTORS

LARGER = 2.0
"""A base whose log runtime exceeds the target's by this many standard deviations of a run is a larger problem."""


def own_runtime(target_procs: Floats, target_s: Floats, procs: Floats) -> Floats:
    """Runtimes (s) that the model average gives from the target's points alone."""
    n_points, n_targets = len(target_procs), len(procs)
    asked = PredictionTask(
        offsets=np.array([0, n_points]),
        application=np.array([-1]),
        procs=target_procs,
        runtime_s=target_s,
        n_runs=np.ones(n_points),
        log_sd=np.full(n_points, np.nan),
        target_series=np.zeros(n_targets, np.int64),
        target_procs=np.asarray(procs, np.float64),
    )
    return PREDICTORS["average"](asked)


def borrows(ratio: float, same: float, settings: AcrossSettings) -> bool:
    """Whether the target borrows from the base; `ratio` is the target's runtime over the base's.

    It does not borrow from another application, nor from a problem larger by more than noise. On counts where the
    larger problem still scales its overhead is hidden, so the joint fit cannot estimate the smaller target's overhead.
    """
    is_larger_base = settings.is_guarded and np.log(ratio) < -LARGER * settings.run_log_sd
    return bool(same >= settings.apart and not is_larger_base)


def guarded(joint: Floats, own: Floats, base_shaped: Floats, largest_s: float, settings: AcrossSettings) -> Floats:
    """Log runtimes to publish where the target borrows, per count, from three predictions of log runtime.

    The result is a weighted mean in logs of the joint fit and the own prediction, which weighs `own_share`. No series
    supports the joint fit where the base's shape takes longer than the target's largest size (`largest_s`) and the
    joint fit is faster than the own prediction. There the faster of the own prediction and the base's shape replaces
    it.
    """
    is_unsupported = settings.is_guarded & (base_shaped >= np.log(largest_s)) & (joint < own)
    joint = np.where(is_unsupported, np.minimum(own, base_shaped), joint)
    pooled: Floats = (1 - settings.own_share) * joint + settings.own_share * own
    return pooled
