"""Accuracy of published predictions on later jobs: coverage, width, errors, and the accuracy of `ok` rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeline.core.arrays import Bools, Floats

NEAR = 0.25
THRESHOLDS = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8)

NUMBERS = ("runtime_s", "runtime_s_lo80", "runtime_s_hi80", "runtime_s_lo95", "runtime_s_hi95", "near_share")


@dataclass(frozen=True, slots=True)
class Scored:
    """A row per later job that a published row answers: its runtime (s), columns of that row, the kernel average.

    `is_seen`: its group had run on its count by the cut. `kernel_s`: the kernel average of its group's other medians.
    """

    actual_s: Floats
    numbers: dict[str, Floats]
    is_ok: Bools
    is_seen: Bools
    kernel_s: Floats

    def take(self, rows: Bools) -> "Scored":
        """The jobs of these rows."""
        numbers = {name: values[rows] for name, values in self.numbers.items()}
        return Scored(self.actual_s[rows], numbers, self.is_ok[rows], self.is_seen[rows], self.kernel_s[rows])

    @property
    def error(self) -> Floats:
        """Absolute error of the median over the runtime."""
        found: Floats = np.abs(self.numbers["runtime_s"] / self.actual_s - 1)
        return found


def figures(scored: Scored) -> dict[str, Any]:
    """Jobs; shares inside 80% and 95%; median width (hi over lo of 80%); median errors; share of jobs on ok rows."""
    if not scored.actual_s.size:
        return {"jobs": 0}
    numbers, actual_s = scored.numbers, scored.actual_s
    ends = {share: [numbers[f"runtime_s_{end}{share}"] for end in ("lo", "hi")] for share in ("80", "95")}
    inside = {share: float(((low <= actual_s) & (actual_s <= high)).mean()) for share, (low, high) in ends.items()}
    return {
        "jobs": actual_s.size,
        **{f"in_{share}": value for share, value in inside.items()},
        "width_80": float(np.median(numbers["runtime_s_hi80"] / numbers["runtime_s_lo80"])),
        "median_error": float(np.median(scored.error)),
        "kernel_error": _median(np.abs(scored.kernel_s / actual_s - 1)),
        "ok_share": float(scored.is_ok.mean()),
    }


def trade_off(scored: Scored) -> list[dict[str, float]]:
    """Per threshold of `near_share`: the share of jobs on rows above it, and their median error."""
    near, rows = np.nan_to_num(scored.numbers["near_share"], nan=-1.0), []
    for least in THRESHOLDS:
        chosen = near >= least
        rows.append({"near_share": least, "jobs": float(chosen.mean()) if chosen.size else 0.0,
                     "median_error": _median(scored.error[chosen])})  # fmt: skip
    return rows


def _median(values: Floats) -> float:
    known = values[np.isfinite(values)]
    return float(np.median(known)) if known.size else float("nan")


def joined(parts: Sequence[Scored]) -> Scored:
    """All jobs of some parts, in their order."""
    numbers = {name: np.concatenate([part.numbers[name] for part in parts]) for name in NUMBERS}
    rest = (np.concatenate([getattr(part, name) for part in parts]) for name in ("is_ok", "is_seen", "kernel_s"))
    return Scored(np.concatenate([part.actual_s for part in parts]), numbers, *rest)
