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
    from flows.services.initialising import sample
    from pipeline import RELEASE as __version__  # noqa: N811
    from pipeline.errors import WalltimeError
    from walltime.jobs import JobEstimator, UnreadableLinesWarning, backtest, clean, estimate, read, replay, when
    from walltime.models import ScalingModel, ask, fit, learn, observe, predict, suggest

__all__ = [
    "JobEstimator", "ScalingModel", "UnreadableLinesWarning", "WalltimeError", "__version__", "ask", "backtest",
    "clean", "estimate", "fit", "learn", "observe", "predict", "read", "replay", "sample", "suggest", "when",
]  # fmt: skip

_ELSEWHERE = {
    "walltime.models": ("observe", "fit", "predict", "ScalingModel", "learn", "ask", "suggest"),
    "pipeline.errors": ("WalltimeError",),
    "flows.services.initialising": ("sample",),
}
"""The modules of public names that do not stand in walltime.jobs."""


def __getattr__(name: str) -> Any:
    """A public name, imported at its first use."""
    if name == "__version__":
        from pipeline import RELEASE  # noqa: PLC0415

        return RELEASE
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = next((module for module, names in _ELSEWHERE.items() if name in names), "walltime.jobs")
    found = globals()[name] = getattr(import_module(module), name)
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
