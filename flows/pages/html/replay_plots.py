"""The plot of the replays' page: each case's change in slowdown, with its quartiles over the shakes."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.ticker import FixedFormatter, FixedLocator, PercentFormatter

from flows.pages.html.drawing import COLOURS, panel, styled, to_svg


def changes_plot(cases: Sequence[Mapping[str, Any]]) -> str:
    """SVG: per case a line between the quartiles (`low`, `high`) of slowdown_change, and a dot at the median."""
    with styled():
        figure, axes = panel(0.72 + 0.24 * len(cases), left=0.2)
        for place, row in enumerate(cases):
            colour = COLOURS["best" if row["estimates"] == "walltime" else "muted"]
            if row["low"] is not None and row["high"] is not None:
                axes.plot([row["low"], row["high"]], [place, place], color=colour, linewidth=2)
            axes.plot([row["slowdown_change"]], [place], color=colour, marker="o", markersize=5, gid=f"case-{place}")
        axes.axvline(0, color=COLOURS["ink"], linewidth=0.8)
        axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        axes.yaxis.set_major_locator(FixedLocator(list(range(len(cases)))))
        axes.yaxis.set_major_formatter(FixedFormatter([f"{row['policy']}, {row['estimates']}" for row in cases]))
        axes.invert_yaxis()
        axes.set_xlabel("change of the mean bounded slowdown")
        words = {f"case-{place}": _words(row) for place, row in enumerate(cases)}
        return to_svg(figure, f"Change of the mean bounded slowdown. {'; '.join(words.values())}.", words)


def _words(row: Mapping[str, Any]) -> str:
    """A case and its change, for a tooltip."""
    change = "unknown" if row["slowdown_change"] is None else f"{row['slowdown_change']:+.1%}"
    return f"{row['policy']}, {row['estimates']}: {change}"
