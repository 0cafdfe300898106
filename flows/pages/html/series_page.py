"""How an application scales, as one page of HTML without network access; every text from outside is escaped."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from flows.pages.formats import number
from flows.pages.html.drawing import COLOURS, WIDTH_IN, render_template, short, styled, to_svg
from flows.pages.terminal.view_scaling import weak_scaling_sentences
from pipeline.arrays import Floats
from pipeline.axes import Axis
from pipeline.laws import LAWS
from pipeline.scaling.advice import CostSettings, axis_of_series, priced
from pipeline.scaling.envelope import Outline, outline

HEIGHT_IN = 3.2
Rows = Sequence[Mapping[str, Any]]


def series_plot(
    observations: Rows,
    predictions: Rows,
    law: tuple[Floats, Floats] | None,
    envelope: Outline | None = None,
    axis: Axis = Axis.PROCS,
) -> Markup | str:
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
        left.set_xlabel(axis.units)
        if envelope is not None:
            _outlined(left, _column(predictions, "procs"), envelope)
        _efficiency(right, predictions, axis)
        return to_svg(figure, _alt(observations, predictions, axis), _titles(observations, predictions, axis))


def _alt(observations: Rows, predictions: Rows, axis: Axis) -> str:
    """What the plot shows, for those who do not see it; the tables below have all figures."""
    ran = [row for row in observations if row["runtime_s_median"]]
    ends = " and ".join(f"{number(row['runtime_s_median'])} s on {number(row['procs'])}" for row in (ran[0], ran[-1]))
    counts = [row["procs"] for row in predictions]
    drawn = f", and predictions for {number(min(counts))} to {number(max(counts))} {axis.units}" if counts else ""
    return f"Runtime and efficiency by {axis.units}: {len(ran)} observed counts, median runtimes {ends}{drawn}."


def _titles(observations: Rows, predictions: Rows, axis: Axis) -> dict[str, str]:
    """The tooltip of each point."""
    runs = {
        f"ran-{row['procs']}": f"{number(row['procs'])} {axis.units}: {number(row['runtime_s_median'])} s, "
        f"median of {number(row['n_jobs'])} runs"
        for row in observations
        if row["runtime_s_median"]
    }
    return runs | {
        f"curve-{row['procs']}": f"{number(row['procs'])} {axis.units}: {number(row['runtime_s'])} s predicted, "
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
    axes.set(ylabel="runtime, s")
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


def _efficiency(axes: Axes, predictions: Rows, axis: Axis) -> None:
    axes.set(xlabel=axis.units, ylabel="efficiency, T(1) / (n T(n))")
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


def series_page(
    title: str, series: Rows, n_all: int | None = None, weak: Rows = (), doubt: str = ""
) -> str:  # fmt: skip
    """The page of some series, as series_as_dicts gives them; the same series give the same bytes.

    The optional `curve` of a series holds predictions dense enough to draw; without it its predictions are drawn.
    `n_all`: number of series, where the page shows only some. `weak`: weak-scaling series.
    `doubt`: a sentence on the whole run.
    """
    return render_template(
        "series.html", title=title, views=[_view(one) for one in series],
        n_hidden=max(0, (n_all or 0) - len(series)), weak=[(one, weak_scaling_sentences(one)) for one in weak],
        doubt=doubt,
    )  # fmt: skip


def _view(one: Mapping[str, Any]) -> dict[str, Any]:
    """A series with its plot, and what the page says beside it."""
    observed, chosen = one["observations"], next((row for row in one["laws"] if row["is_chosen"]), None)
    curve = one.get("curve") or one["predictions"]
    law = _law_curve(chosen, curve) if chosen and curve else None
    envelope, axis = _envelope(one, curve) if curve else None, axis_of_series(one)
    shown = {
        "axis": axis,
        "plot": series_plot(observed, curve, law, envelope, axis) if len(observed) > 1 else "",
        "law": chosen["law"] if chosen else None,
        "envelope": envelope.delta if envelope else None,
        "advice": _advice(one["predictions"] or curve),
        "predictions": [row if "nodes" in row else priced(row, CostSettings()) for row in one["predictions"]],
    }
    return {"across": [], "answer": [], "energy": [], **one, **shown}


def _law_curve(chosen: Mapping[str, Any], curve: Rows) -> tuple[Floats, Floats]:
    procs = _column(curve, "procs")
    given = {name: np.array(value, np.float64) for name, value in chosen.items() if isinstance(value, float)}
    return procs, LAWS[chosen["law"]].runtime_s(given, procs)


def _envelope(one: Mapping[str, Any], curve: Rows) -> Outline | None:
    """ADEPT's envelope of the fitted sizes at the curve's counts; None where a pattern was removed before the fit."""
    if any(row["status"] == "found" and row["factor"] for row in one["patterns"]):
        return None
    rows = [row for row in one["observations"] if row["fit_weight"] != 0 and row["runtime_s_median"]]
    return outline(_column(rows, "procs"), _column(rows, "runtime_s_median"), _column(curve, "procs"))


def _advice(predictions: Rows) -> list[tuple[str, str]]:
    """Each sentence of advice once, in order of processor counts, with the reliability of its first row."""
    found: dict[str, str] = {}
    for row in predictions:
        if row["advice"] and row["reliability"] != "ok":
            found.setdefault(row["advice"], row["reliability"])
    return list(found.items())
