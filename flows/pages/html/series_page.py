"""How an application scales, as one page of HTML without network access; every text from outside is escaped."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from flows.pages.formats import between, number
from flows.pages.html.drawing import COLOURS, WIDTH_IN, render_template, short, styled, to_svg
from flows.pages.terminal.blocks import Column, text
from flows.pages.terminal.view_scaling import weak_scaling_sentences
from pipeline.arrays import Floats
from pipeline.axes import MOST_EFFICIENCY, Axis
from pipeline.laws import LAWS
from pipeline.scaling.adept import Outline, outline
from pipeline.scaling.advice import CostSettings, axis_of_series, cost_of

HEIGHT_IN = 3.2
DENSE = 40
"""More predictions than this are a model's curve; fewer are answers at single counts, which no line may join."""
NEVER_RAN = 0.35
"""How strongly the interval of a count that never ran is drawn, against that of one that ran."""
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
        left, *right = (
            figure.subplots(1, 2, gridspec_kw={"width_ratios": (3, 2)})
            if has_efficiency(predictions)
            else [figure.subplots()]
        )
        figure.subplots_adjust(left=0.07, right=0.985, top=0.97, bottom=0.16, wspace=0.2)
        _runtimes(left, observations, predictions, law)
        left.set_xlabel(axis.units)
        if envelope is not None:
            _outlined(left, _column(predictions, "procs"), envelope)
        for axes in right:
            _efficiency(axes, predictions, axis)
        return to_svg(figure, _alt(observations, predictions, axis), _titles(observations, predictions, axis))


def has_efficiency(predictions: Rows) -> bool:
    """Whether the predictions agree on an efficiency."""
    return any(row["efficiency"] is not None for row in predictions)


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
    """Runs, predictions and the law. Only a model's dense curve is a line: answers at single counts are marks."""
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
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:g}"))
    _count_axis(axes)


def _band(axes: Axes, predictions: Rows, least: float, most: float) -> None:
    """A model's curve with its intervals, which are pale outside of the counts that ran."""
    procs = _column(predictions, "procs")
    inside = (procs >= least) & (procs <= most)
    for width, alpha in (("95", 0.18), ("80", 0.32)):
        low, high = (_column(predictions, f"runtime_s_{end}{width}") for end in ("lo", "hi"))
        colour: Any = {"facecolor": COLOURS["kept"], "edgecolor": "none"}
        for where, strength in ((inside, 1.0), (procs <= least, NEVER_RAN), (procs >= most, NEVER_RAN)):
            axes.fill_between(procs, low, high, where=where, alpha=alpha * strength, **colour)
    axes.plot(procs, _column(predictions, "runtime_s"), color=COLOURS["kept"], linewidth=1.6)


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
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0%}"))


def _count_axis(axes: Axes) -> None:
    axes.xaxis.set_major_locator(LogLocator(base=2, numticks=7))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_major_formatter(FuncFormatter(short))


def series_page(
    title: str, series: Rows, n_all: int | None = None, weak: Rows = (), doubt: str = "",
    asked: Mapping[str, Any] | None = None,
) -> str:  # fmt: skip
    """The page of some series, as series_as_dicts gives them; the same series give the same bytes.

    The optional `curve` of a series holds predictions dense enough to draw; without it its predictions are drawn.
    `n_all`: number of series, where the page shows only some. `weak`: weak-scaling series.
    `doubt`: a sentence on the whole run. `asked`: the application's row of the site's page, whose count the page asks
    for.
    """
    return render_template(
        "series.html", title=title, views=[_view(one) for one in series],
        n_hidden=max(0, (n_all or 0) - len(series)), weak=[(one, weak_scaling_sentences(one)) for one in weak],
        doubt=doubt, asked=asked, weak_columns=WEAK,
    )  # fmt: skip


WEAK = (
    Column("processors", "procs"),
    Column("runtime s", "runtime_s"),
    Column("weak efficiency", "efficiency", told="T(smallest)/T(n): 1 is ideal"),
    Column("scaled speedup", "scaled_speedup", told="times the work per second of the smallest count"),
)
LAWS_SHOWN = (
    text("law", told="the formula fitted"),
    text("status", told="ok, or why the fit is uncertain"),
    Column("T(1) s", "t1_s", told="runtime on one processor, by the law"),
    Column("average parallelism", "avg_parallelism", told="speedup on unlimited processors, by Downey's laws"),
    Column("sigma", told="0: a sharp bend of the speedup; larger: a gradual one"),
    Column("serial fraction", "serial_fraction", told="share of the work that only one processor does"),
    Column("leave-one-out error", "loo_log_rmse",
           told="typical error on a size that the fit did not see (log s; 0.1 is about 10%)"),
    text("answers", lambda row: "chosen" if row["is_chosen"] else ""),
)  # fmt: skip


def _between(width: str, **more: Any) -> Column:
    """The column with an interval of new runs."""
    low, high = f"runtime_s_lo{width}", f"runtime_s_hi{width}"
    return Column(f"{width}% of runs", lambda row: between(row[low], row[high]), **more)


def _columns(axis: Axis, base: float | None) -> dict[str, tuple[Column, ...]]:
    """The columns of a series' tables by table; those without a value are not shown."""
    count = Column(axis.units, "procs")
    return {
        "observed": (
            count,
            Column("runs", "n_jobs"),
            Column("median s", "runtime_s_median", told="runs stopped at their limit count as longer"),
            Column("10% s", "runtime_s_q10", told="a tenth of the runs took less"),
            Column("90% s", "runtime_s_q90", told="nine tenths of the runs took less"),
            text("in the fit", _in_the_fit, told="whether the laws are fitted to this count, or why not"),
        ),
        "predicted": (
            count,
            Column("runtime s", "runtime_s", told="median of new runs"),
            _between("80", told="four of five new runs take between these, if the future is like the past"),
            _between("95", told="19 of 20 new runs take between these"),
            Column(f"speedup over {number(base)}", "speedup", told="the ratio of the runtimes shown"),
            Column("efficiency", told=f"speedup times {number(base)} over n"),
            *((Column("nodes", told="whole nodes charged"),) if axis == Axis.PROCS else ()),
            Column(f"{axis.unit}-hours", "proc_hours", told=f"{axis.units} charged times hours"),
            Column("cost", "price", told=f"{axis.unit}-hours times the rate given"),
            text("reliability", form=lambda codes: codes.replace("+", ", "), told="ok, or why the row is doubtful"),
            text("meaning", "advice", told="what the reliability means, or what to do about it"),
        ),
        "across": (
            count,
            Column("runtime s", "runtime_s"),
            _between("80"),
            Column("own points alone s", "own_s", told="model average of the series' own points"),
            Column("constant ratio s", "ratio_s", told="the base's curve times one factor"),
        ),
        "energy": (
            count,
            Column("energy J", "energy_j", told="median of the runs whose energy was measured"),
            Column("energy-delay J s", "energy_delay_js", told="small for a run that is fast and uses little energy"),
            text("least", form=", ".join),
        ),
        "laws": LAWS_SHOWN,
    }


def _in_the_fit(row: Mapping[str, Any]) -> str:
    if row["fit_weight"] == 0:
        expected = f"; the other sizes predict {number(row['expected_s'])} s" if row["expected_s"] else ""
        return f"left out: {row['odd'] or 'odd'}{expected}"
    if row["runtime_s_median"] is None:
        return "no: most runs were cut off"
    return "yes" if row["fit_weight"] in (None, 1.0) else f"at {row['fit_weight']:.2g} of its weight"


def _view(one: Mapping[str, Any]) -> dict[str, Any]:
    """A series with its plot, and what the page says beside it."""
    observed, chosen = one["observations"], next((row for row in one["laws"] if row["is_chosen"]), None)
    base, curve = _base(one), with_gains(one.get("curve") or one["predictions"], _base(one))
    law = _law_curve(chosen, curve) if chosen and curve else None
    envelope, axis = _envelope(one, curve) if curve else None, axis_of_series(one)
    rows = [
        row if "nodes" in row else row | cost_of(row["procs"], row["runtime_s"], CostSettings())
        for row in one["predictions"]
    ]
    shown = {
        "axis": axis,
        "plot": series_plot(observed, curve, law, envelope, axis) if len(observed) > 1 else "",
        "law": chosen["law"] if chosen else None,
        "envelope": envelope.delta if envelope else None,
        "base": base["procs"] if base else None,
        "dense": len(curve) > DENSE,
        "has_efficiency": has_efficiency(curve),
        "columns": _columns(axis, base["procs"] if base else None),
        "next_run": next((row["advice"] for row in one["predictions"] or curve if row["advice"]), None),
        "predictions": with_gains(rows, base),
    }
    return {"across": [], "answer": [], "energy": [], **one, **shown}


def _base(one: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The prediction at the least count that ran, which speed-ups on the page are against; None without one."""
    ran = {row["procs"] for row in one["observations"] if row["runtime_s_median"]}
    return min((row for row in one["predictions"] if row["procs"] in ran), key=lambda row: row["procs"], default=None)


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


def _envelope(one: Mapping[str, Any], curve: Rows) -> Outline | None:
    """ADEPT's envelope of the fitted sizes at the curve's counts; None where a pattern was removed before the fit."""
    if any(row["status"] == "found" and row["factor"] for row in one["patterns"]):
        return None
    rows = [row for row in one["observations"] if row["fit_weight"] != 0 and row["runtime_s_median"]]
    return outline(_column(rows, "procs"), _column(rows, "runtime_s_median"), _column(curve, "procs"))
