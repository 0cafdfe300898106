"""How much a problem size may borrow from another one: decided from the two series alone.

Two points of a target leave open how its overhead grows, so the joint fit (across.py) may promise a gain that neither
series shows. The guard holds the joint fit back there, and pools it with the target's own prediction everywhere.
"""

import numpy as np

from pipeline.core.arrays import Floats
from pipeline.core.asked import Asked
from pipeline.core.screen_settings import AcrossSettings
from pipeline.predict.average_predictors import PREDICTORS

LARGER = 2.0
"""A base that takes longer by this many times what a runtime is off its curve is a larger problem."""


def own_runtime(target_procs: Floats, target_s: Floats, procs: Floats) -> Floats:
    """Runtimes (s) that the model average gives from the target's points alone."""
    n_points, n_targets = len(target_procs), len(procs)
    asked = Asked(
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
    """Whether the target takes anything from the base, which it runs `ratio` times as long as.

    Not from another application; nor from a problem larger by more than noise: its overhead is hidden on counts where
    it still scales, and a smaller target shows it there, to a degree that the joint fit can only guess.
    """
    is_larger_base = settings.is_guarded and np.log(ratio) < -LARGER * settings.run_log_sd
    return bool(same >= settings.apart and not is_larger_base)


def guarded(joint: Floats, own: Floats, base_shaped: Floats, largest_s: float, settings: AcrossSettings) -> Floats:
    """Log runtimes to publish where the target borrows, of the joint fit's, its own and those of the base's shape.

    All are per count. They are a geometric mean of the joint fit and the own prediction, at `own_share`.
    Where the base takes longer than at the target's largest size (`largest_s`), and the joint fit is faster than the
    target's own points say, the faster of those two stands for the joint fit: no series shows the gain it promises.
    """
    is_unsupported = settings.is_guarded & (base_shaped >= np.log(largest_s)) & (joint < own)
    joint = np.where(is_unsupported, np.minimum(own, base_shaped), joint)
    pooled: Floats = (1 - settings.own_share) * joint + settings.own_share * own
    return pooled
