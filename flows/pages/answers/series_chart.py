"""The chart of a series: runtimes and efficiencies that were measured, predicted, and given by the chosen law."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from markupsafe import Markup

from flows.pages.formats import number
from flows.pages.html.drawing import COLOURS, panels, short, to_svg
from flows.pages.terminal.blocks import Chart, Mark
from pipeline.arrays import Floats
from pipeline.axes import MOST_EFFICIENCY, Axis
from pipeline.laws import LAWS
from pipeline.scaling.advice import axis_of_series

DENSE = 40
"""More predictions than this are a model's curve; fewer are answers at single counts, which no line may join."""
NEVER_RAN = 0.35
"""How strongly the interval of a count that never ran is drawn, against that of one that ran."""

Rows = Sequence[Mapping[str, Any]]


def series_chart(one: Mapping[str, Any]) -> Chart:
    """The chart of a series, as series_as_dicts gives it: of its dense `curve`, or without one of its predictions."""
    observed, base, axis = one["observations"], base_of(one), axis_of_series(one)
    curve = with_gains(one.get("curve") or one["predictions"], base)
    chosen = next((row for row in one["laws"] if row["is_chosen"]), None)
    law = _law_curve(chosen, curve) if chosen and curve else None
    is_dense, both = len(curve) > DENSE, any(row["efficiency"] is not None for row in curve)
    legend = [
        Mark("median of the runs, and the middle 80% of repeats", "ink"),
        Mark("predicted", "kept", "stroke" if is_dense else "\N{BLACK DIAMOND}"),
        Mark(f"{'80% and 95%' if is_dense else '80%'} of new runs, paler at counts that never ran", "kept"),
    ]
    if chosen:
        legend.append(Mark(f"chosen law: {chosen['law']}", "cron", "dashed"))
    if any(row["fit_weight"] == 0 for row in observed):
        legend.append(Mark("left out of the fit", "flurry", "\N{MULTIPLICATION SIGN}"))
    right = f" Right: efficiency against {number(base['procs'])}." if both and base else ""
    caption = f"{'Left: runtime' if right else 'Runtime'} (s) by {axis.units}, both axes logarithmic.{right}"

    def draw() -> Markup | str:
        if len(observed) < 2 or not any(row["runtime_s_median"] for row in observed):
            return ""
        return draw_series(observed, curve, law, axis)

    return Chart(draw, caption, legend)


def draw_series(
    observations: Rows,
    predictions: Rows,
    law: tuple[Floats, Floats] | None,
    axis: Axis = Axis.PROCS,
) -> Markup:
    """`law`: processor counts and runtimes (s) of its curve."""
    has_efficiency = any(row["efficiency"] is not None for row in predictions)
    figure, (left, *right) = panels((3, 2) if has_efficiency else (1,), 3.2)
    figure.subplots_adjust(left=0.07, right=0.985, top=0.97, bottom=0.16, wspace=0.2)
    _runtimes(left, observations, predictions, law)
    left.set_xlabel(axis.units)
    for axes in right:
        _efficiency(axes, predictions, axis)
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


def _targets(axes: Any, rows: Rows, column: str, name: str) -> None:
    """Invisible discs that carry the tooltips: lines and small points are hard to hit."""
    for row in rows:
        if row[column]:
            axes.plot([row["procs"]], [row[column]], "o", markersize=9, alpha=0, gid=f"{name}-{row['procs']}")


def _column(rows: Rows, name: str) -> Floats:
    return np.array([np.nan if row[name] is None else row[name] for row in rows], np.float64)


def _runtimes(axes: Any, observations: Rows, predictions: Rows, law: tuple[Floats, Floats] | None) -> None:
    """Runs, predictions and the law. Only a model's dense curve is a line: answers at single counts are marks."""
    from matplotlib.ticker import LogLocator  # noqa: PLC0415

    axes.set(ylabel="runtime, s")
    ran = {row["procs"] for row in observations if row["runtime_s_median"]}
    if len(predictions) > DENSE:
        _band(axes, predictions, min(ran), max(ran))
    else:
        for row in predictions:
            strength = 1.0 if row["procs"] in ran else NEVER_RAN
            ends = [row["runtime_s_lo80"], row["runtime_s_hi80"]]
            axes.plot([row["procs"]] * 2, ends, color=COLOURS["kept"], linewidth=3.5, alpha=0.5 * strength)
            axes.plot([row["procs"]], [row["runtime_s"]], "D", color=COLOURS["kept"], markersize=4, alpha=strength)
    if law is not None:
        axes.plot(*law, color=COLOURS["cron"], linewidth=1.0, linestyle=(0, (4, 2)))
    _points(axes, observations)
    _targets(axes, predictions, "runtime_s", "curve")
    _targets(axes, observations, "runtime_s_median", "ran")
    for scale in (axes.set_xscale, axes.set_yscale):
        scale("log", base=2 if scale == axes.set_xscale else 10)
    bottom, top = axes.get_ylim()
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if top < 100 * bottom else (1,)))
    axes.yaxis.set_minor_formatter("")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:g}")
    _count_axis(axes)


def _band(axes: Any, predictions: Rows, least: float, most: float) -> None:
    """A model's curve with its intervals, which are pale outside of the counts that ran."""
    procs = _column(predictions, "procs")
    inside = (procs >= least) & (procs <= most)
    for width, alpha in (("95", 0.18), ("80", 0.32)):
        low, high = (_column(predictions, f"runtime_s_{end}{width}") for end in ("lo", "hi"))
        colour: Any = {"facecolor": COLOURS["kept"], "edgecolor": "none"}
        for where, strength in ((inside, 1.0), (procs <= least, NEVER_RAN), (procs >= most, NEVER_RAN)):
            axes.fill_between(procs, low, high, where=where, alpha=alpha * strength, **colour)
    axes.plot(procs, _column(predictions, "runtime_s"), color=COLOURS["kept"], linewidth=1.6)


def _points(axes: Any, observations: Rows) -> None:
    for is_out, colour in ((False, "ink"), (True, "flurry")):
        rows = [row for row in observations if (row["fit_weight"] == 0) == is_out and row["runtime_s_median"]]
        procs, middle = _column(rows, "procs"), _column(rows, "runtime_s_median")
        low, high = (np.nan_to_num(_column(rows, f"runtime_s_{name}"), nan=0.0) for name in ("q10", "q90"))
        down, up = np.where(low > 0, middle - low, 0.0), np.where(high > 0, high - middle, 0.0)
        marker: Any = {"fmt": "x" if is_out else "o", "markersize": 5 if is_out else 3.5}
        axes.errorbar(
            procs, middle, (np.maximum(down, 0), np.maximum(up, 0)), color=COLOURS[colour], linewidth=0.9, **marker
        )


def _efficiency(axes: Any, predictions: Rows, axis: Axis) -> None:
    axes.set(xlabel=axis.units, ylabel="efficiency")
    procs, efficiency = _column(predictions, "procs"), _column(predictions, "efficiency")
    style: Any = (
        {"linewidth": 1.6} if len(predictions) > DENSE else {"linestyle": "none", "marker": "D", "markersize": 4}
    )
    axes.plot(procs, efficiency, color=COLOURS["kept"], **style)
    for share in (0.5, 0.8):
        axes.axhline(share, color=COLOURS["muted"], linewidth=0.7, linestyle=(0, (2, 3)))
    axes.set_xscale("log", base=2)
    axes.set_ylim(0, MOST_EFFICIENCY + 0.05)
    _count_axis(axes)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")


def _count_axis(axes: Any) -> None:
    from matplotlib.ticker import LogLocator  # noqa: PLC0415

    axes.xaxis.set_major_locator(LogLocator(base=2, numticks=7))
    axes.xaxis.set_minor_formatter("")
    axes.xaxis.set_major_formatter(short)


def base_of(one: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The prediction at the least count that ran, which speed-ups on the page are against; None without one."""
    ran = {row["procs"] for row in one["observations"] if row["runtime_s_median"]}
    predicted = (*one.get("fitted", ()), *one["predictions"])
    return min((row for row in predicted if row["procs"] in ran), key=lambda row: row["procs"], default=None)


def with_gains(rows: Rows, base: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """The rows with speedup and efficiency against `base`, as ratios of the runtimes that the page shows.

    Both are None in all rows where an efficiency would exceed MOST_EFFICIENCY: the predictions then do not agree.
    """
    gains = [base["runtime_s"] / row["runtime_s"] if base and row["runtime_s"] else None for row in rows]
    shares = [None if not base or gain is None else gain * base["procs"] / row["procs"]
              for gain, row in zip(gains, rows, strict=True)]  # fmt: skip
    if max((share for share in shares if share is not None), default=0.0) > MOST_EFFICIENCY:
        gains = shares = [None] * len(rows)
    return [{**row, "speedup": gain, "efficiency": share} for row, gain, share in zip(rows, gains, shares, strict=True)]


def _law_curve(chosen: Mapping[str, Any], curve: Rows) -> tuple[Floats, Floats]:
    procs = _column(curve, "procs")
    given = {name: np.array(value, np.float64) for name, value in chosen.items() if isinstance(value, float)}
    return procs, LAWS[chosen["law"]].runtime_s(given, procs)
