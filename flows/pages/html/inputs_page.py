"""The page of a model over inputs, without network access; every text from a file is escaped."""

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup
from matplotlib.ticker import FixedFormatter, FixedLocator, NullFormatter, NullLocator, PercentFormatter

from flows.pages.html.drawing import COLOURS, panel, render_template, styled, to_svg
from flows.pages.terminal.render import number
from flows.pages.terminal.render_models import error_sentence
from pipeline.errors import printable
from pipeline.inputs.model_study import MORE_RUNS, ModelStudy

_SPREAD = 20.0
"""Values that differ by more than this ratio are drawn on a logarithmic axis."""


def effect_plot(name: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """SVG: the runtime at each value of an input, with the range of 80% of the runs."""
    with styled():
        figure, axes = panel(1.9)
        places = [row["value"] for row in rows]
        is_number = all(isinstance(place, int | float) and not isinstance(place, bool) for place in places)
        x = places if is_number else list(range(len(places)))
        axes.vlines(
            x, [row["low_s"] for row in rows], [row["high_s"] for row in rows], color=COLOURS["line"], linewidth=4
        )
        axes.plot(x, [row["median_s"] for row in rows], color=COLOURS["best"], marker="o", markersize=4, linewidth=1)
        if is_number and places and min(places) > 0 and max(places) > _SPREAD * min(places):
            axes.set_xscale("log")
        if not is_number:
            axes.xaxis.set_major_locator(FixedLocator(x))
            axes.xaxis.set_major_formatter(FixedFormatter([printable(str(place), 30) for place in places]))
        if rows and max(row["high_s"] for row in rows) > _SPREAD * min(row["low_s"] for row in rows) > 0:
            axes.set_yscale("log")
        axes.set_ylabel("runtime, s")
        axes.set_xlabel(printable(name, 60))
        return to_svg(figure, f"The predicted runtime at {len(rows)} values of {printable(name, 60)}.")


def calibration_plot(pairs: Sequence[tuple[float, float]]) -> str:
    """SVG: the share of held runs inside intervals of each level, beside the level itself."""
    with styled():
        figure, axes = panel(2.4)
        axes.plot([0, 1], [0, 1], color=COLOURS["line"], linewidth=1)
        axes.plot(
            [level for level, _ in pairs],
            [share for _, share in pairs],
            color=COLOURS["best"],
            marker="o",
            markersize=4,
        )
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        axes.set_xlabel("level of the interval")
        axes.set_ylabel("runs inside")
        return to_svg(figure, "The share of runs inside intervals of each level, beside the level itself.")


def curve_plot(pairs: Sequence[tuple[int, float]]) -> str:
    """SVG: the mean error on held folds by the number of runs learnt from."""
    with styled():
        figure, axes = panel(2.0)
        axes.plot([n for n, _ in pairs], [error for _, error in pairs], color=COLOURS["best"], marker="o", markersize=4)
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(FixedLocator([n for n, _ in pairs]))
        axes.xaxis.set_major_formatter(FixedFormatter([f"{n:,}" for n, _ in pairs]))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_ylim(bottom=0)
        axes.set_xlabel("runs")
        axes.set_ylabel("mean error, %")
        return to_svg(figure, "The mean error on held folds by the number of runs learnt from.")


def inputs_page(title: str, summary: Mapping[str, Any], study: ModelStudy) -> str:
    """The page; the same model and study give the same bytes."""
    effects = [
        {"name": name, "rows": rows, "plot": Markup(effect_plot(name, rows))}  # noqa: S704 # nosec B704 # drawn and escaped by inputs_plots
        for name, rows in study.effects.items()
    ]
    return render_template(
        "inputs.html", {"number": number}, title=title, summary=summary, sentence=error_sentence(summary["error"]),
        sizes=study.sizes, effects=effects, curve=study.curve, more=more_sentence(study),
        calibration=Markup(calibration_plot(study.calibration)),  # noqa: S704 # nosec B704 # numbers alone
        curve_plot=Markup(curve_plot(study.curve)),  # noqa: S704 # nosec B704 # numbers alone
    )  # fmt: skip


def more_sentence(study: ModelStudy) -> str:
    """What more runs would give, in a sentence."""
    if study.more_runs is None:
        return "The errors of parts of the runs show no fall, so that nothing can be said about more runs."
    return f"{MORE_RUNS} more runs like these would give a mean error of about {study.more_runs:.3g}%."
