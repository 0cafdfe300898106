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
    from pipeline.errors import WalltimeError
    from pipeline.version import RELEASE as __version__  # noqa: N811
    from walltime.input_models import ask, learn, suggest
    from walltime.job_estimates import JobEstimator, backtest, estimate, replay, when
    from walltime.log_jobs import UnreadableLinesWarning, clean, read
    from walltime.scaling_model import ScalingModel, fit, observe, predict

_MODULES = {
    "walltime.log_jobs": ("read", "clean", "UnreadableLinesWarning"),
    "walltime.scaling_model": ("observe", "fit", "predict", "ScalingModel"),
    "walltime.job_estimates": ("JobEstimator", "estimate", "backtest", "replay", "when"),
    "walltime.input_models": ("learn", "ask", "suggest"),
    "pipeline.errors": ("WalltimeError",),
}
_PLACES = {name: (module, name) for module, names in _MODULES.items() for name in names}
_PLACES["__version__"] = ("pipeline.version", "RELEASE")

__all__ = [
    "JobEstimator", "ScalingModel", "UnreadableLinesWarning", "WalltimeError", "__version__", "ask", "backtest",
    "clean", "estimate", "fit", "learn", "observe", "predict", "read", "replay", "suggest", "when",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """A public name, imported at its first use."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _PLACES[name]
    found = globals()[name] = getattr(import_module(module), attribute)
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
