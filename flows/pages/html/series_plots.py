"""The plot of one series as SVG: its runs, the predicted curve with intervals, and efficiency."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from flows.pages.html.drawing import COLOURS, WIDTH_IN, short, styled, to_svg
from flows.pages.terminal.render import number
from pipeline.core.arrays import Floats
from pipeline.fit.envelope_outline import Outline

HEIGHT_IN = 3.2
Rows = Sequence[Mapping[str, Any]]


def series_plot(
    observations: Rows, predictions: Rows, law: tuple[Floats, Floats] | None, envelope: Outline | None = None
) -> str:
    """SVG; empty where nothing has a runtime. `law`: processor counts and runtimes (s) of the chosen law's curve.

    `envelope` has runtimes on the processor counts of the predictions.
    """
    if not any(row["runtime_s_median"] for row in observations):
        return ""
    with styled():
        figure = Figure(figsize=(WIDTH_IN, HEIGHT_IN))
        left, right = figure.subplots(1, 2, gridspec_kw={"width_ratios": (3, 2)})
        figure.subplots_adjust(left=0.07, right=0.985, top=0.97, bottom=0.16, wspace=0.2)
        _runtimes(left, observations, predictions, law)
        if envelope is not None:
            _outlined(left, _column(predictions, "procs"), envelope)
        _efficiency(right, predictions)
        return to_svg(figure, _alt(observations, predictions), _titles(observations, predictions))


def _alt(observations: Rows, predictions: Rows) -> str:
    """What the plot shows, for those who do not see it; the tables below have all figures."""
    ran = [row for row in observations if row["runtime_s_median"]]
    ends = " and ".join(f"{number(row['runtime_s_median'])} s on {number(row['procs'])}" for row in (ran[0], ran[-1]))
    counts = [row["procs"] for row in predictions]
    drawn = f", and predictions for {number(min(counts))} to {number(max(counts))} processors" if counts else ""
    return f"Runtime and efficiency by processors: {len(ran)} observed counts, median runtimes {ends}{drawn}."


def _titles(observations: Rows, predictions: Rows) -> dict[str, str]:
    """The tooltip of each point."""
    runs = {
        f"ran-{row['procs']}": f"{number(row['procs'])} processors: {number(row['runtime_s_median'])} s, "
        f"median of {number(row['n_jobs'])} runs"
        for row in observations
        if row["runtime_s_median"]
    }
    return runs | {
        f"curve-{row['procs']}": f"{number(row['procs'])} processors: {number(row['runtime_s'])} s predicted, "
        f"80% of runs {number(row['runtime_s_lo80'])} to {number(row['runtime_s_hi80'])} s"
        for row in predictions
    }


def _targets(axes: Axes, rows: Rows, column: str, name: str) -> None:
    """Invisible discs that carry the tooltips: lines and small points are hard to hit."""
    for row in rows:
        if row[column]:
            axes.plot([row["procs"]], [row[column]], "o", markersize=9, alpha=0, gid=f"{name}-{row['procs']}")


def _outlined(axes: Axes, procs: Floats, envelope: Outline) -> None:
    """Draw the envelope without changing the limits of the axes, as it may be far from the data."""
    limits = axes.get_ylim()
    for edge_s in (envelope.lo_s, envelope.hi_s):
        axes.plot(procs, edge_s, color=COLOURS["probe"], linewidth=0.8, linestyle=(0, (1, 1.6)))
    axes.set_ylim(*limits)


def _column(rows: Rows, name: str) -> Floats:
    return np.array([np.nan if row[name] is None else row[name] for row in rows], np.float64)


def _runtimes(axes: Axes, observations: Rows, predictions: Rows, law: tuple[Floats, Floats] | None) -> None:
    axes.set(xlabel="processors", ylabel="runtime, s")
    procs = _column(predictions, "procs")
    for width, alpha in (("95", 0.18), ("80", 0.32)):
        low, high = (_column(predictions, f"runtime_s_{end}{width}") for end in ("lo", "hi"))
        axes.fill_between(procs, low, high, facecolor=COLOURS["kept"], alpha=alpha, edgecolor="none")
    axes.plot(procs, _column(predictions, "runtime_s"), color=COLOURS["kept"], linewidth=1.6)
    if law is not None:
        axes.plot(*law, color=COLOURS["cron"], linewidth=1.0, linestyle=(0, (4, 2)))
    _points(axes, observations)
    _targets(axes, predictions, "runtime_s", "curve")
    _targets(axes, observations, "runtime_s_median", "ran")
    for scale in (axes.set_xscale, axes.set_yscale):
        scale("log", base=2 if scale == axes.set_xscale else 10)
    bottom, top = axes.get_ylim()
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if top < 100 * bottom else (1,)))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:g}"))
    _count_axis(axes)


def _points(axes: Axes, observations: Rows) -> None:
    for is_out, colour in ((False, "ink"), (True, "flurry")):
        rows = [row for row in observations if (row["fit_weight"] == 0) == is_out and row["runtime_s_median"]]
        procs, middle = _column(rows, "procs"), _column(rows, "runtime_s_median")
        low, high = (np.nan_to_num(_column(rows, f"runtime_s_{name}"), nan=0.0) for name in ("q10", "q90"))
        down, up = np.where(low > 0, middle - low, 0.0), np.where(high > 0, high - middle, 0.0)
        marker: Any = {"fmt": "x" if is_out else "o", "markersize": 5 if is_out else 3.5}
        axes.errorbar(
            procs, middle, (np.maximum(down, 0), np.maximum(up, 0)), color=COLOURS[colour], linewidth=0.9, **marker
        )


def _efficiency(axes: Axes, predictions: Rows) -> None:
    axes.set(xlabel="processors", ylabel="efficiency, T(1) / (n T(n))")
    procs, efficiency = _column(predictions, "procs"), _column(predictions, "efficiency")
    if not np.isfinite(efficiency).any():
        axes.text(0.5, 0.5, "unknown: nothing says T(1)", ha="center", va="center", transform=axes.transAxes)
        axes.set(xticks=[], yticks=[], ylim=(0, 1))
        return
    axes.plot(procs, efficiency, color=COLOURS["kept"], linewidth=1.6)
    for share in (0.5, 0.8):
        axes.axhline(share, color=COLOURS["muted"], linewidth=0.7, linestyle=(0, (2, 3)))
    axes.set_xscale("log", base=2)
    # Where T(1) is far below the observed counts, efficiencies are wrong and may exceed the plot.
    axes.set_ylim(0, min(axes.get_ylim()[1], 1.5))
    _count_axis(axes)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0%}"))


def _count_axis(axes: Axes) -> None:
    axes.xaxis.set_major_locator(LogLocator(base=2, numticks=7))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_major_formatter(FuncFormatter(short))
