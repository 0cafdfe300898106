"""Walltime in Python: data frames in, data frames out.

    import walltime as wt

    jobs = wt.clean(wt.read("accounting.swf", site="mycluster"))
    model = wt.fit(jobs, by=["application"])
    wt.predict(model, procs=[64, 128])

A frame is a table of pandas, polars or Arrow; the answer is a table of the same kind. This package computes nothing: it
converts frames to the tables of `pipeline`, calls its stages, and converts the results back. The functions are imported
at first use, so that `import walltime` is fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipeline.errors import WalltimeError as WalltimeError
    from pipeline.version import RELEASE as __version__  # noqa: N811
    from walltime.job_estimates import backtest as backtest
    from walltime.job_estimates import estimate as estimate
    from walltime.log_jobs import UnreadableLinesWarning as UnreadableLinesWarning
    from walltime.log_jobs import clean as clean
    from walltime.log_jobs import read as read
    from walltime.policy_replay import replay as replay
    from walltime.scaling_model import ScalingModel as ScalingModel
    from walltime.scaling_model import fit as fit
    from walltime.scaling_model import observe as observe
    from walltime.scaling_model import predict as predict

_PLACES = {
    "read": "walltime.log_jobs:read",
    "clean": "walltime.log_jobs:clean",
    "observe": "walltime.scaling_model:observe",
    "fit": "walltime.scaling_model:fit",
    "predict": "walltime.scaling_model:predict",
    "estimate": "walltime.job_estimates:estimate",
    "backtest": "walltime.job_estimates:backtest",
    "replay": "walltime.policy_replay:replay",
    "ScalingModel": "walltime.scaling_model:ScalingModel",
    "WalltimeError": "pipeline.errors:WalltimeError",
    "UnreadableLinesWarning": "walltime.log_jobs:UnreadableLinesWarning",
    "__version__": "pipeline.version:RELEASE",
}

__all__ = [
    "ScalingModel",
    "UnreadableLinesWarning",
    "WalltimeError",
    "__version__",
    "backtest",
    "clean",
    "estimate",
    "fit",
    "observe",
    "predict",
    "read",
    "replay",
]


def __getattr__(name: str) -> Any:
    """A public name, imported at its first use."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, attribute = _PLACES[name].partition(":")
    found = globals()[name] = getattr(import_module(module), attribute)
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
