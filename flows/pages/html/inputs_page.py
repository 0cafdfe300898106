"""The page of a model over inputs, without network access; every text from a file is escaped."""

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from flows.pages.html.drawing import COLOURS, curve, named_ticks, panel, per_cent, render_template, styled, to_svg
from flows.pages.terminal.view_models import error_sentence
from pipeline.errors import printable
from pipeline.inputs.model_study import MORE_RUNS, ModelStudy

_SPREAD = 20.0
"""Values that differ by more than this ratio are drawn on a logarithmic axis."""


def effect_plot(name: str, rows: Sequence[Mapping[str, Any]]) -> Markup:
    """SVG: the runtime at each value of an input, with the range of 80% of the runs."""
    figure, axes = panel(1.9)
    places = [row["value"] for row in rows]
    is_number = all(isinstance(place, int | float) and not isinstance(place, bool) for place in places)
    x = places if is_number else list(range(len(places)))
    low, high, middle = ([row[f"{which}_s"] for row in rows] for which in ("low", "high", "median"))
    axes.vlines(x, low, high, color=COLOURS["line"], linewidth=4)
    curve(axes, x, middle, linewidth=1)
    if is_number and places and min(places) > 0 and max(places) > _SPREAD * min(places):
        axes.set_xscale("log")
    if not is_number:
        named_ticks(axes.xaxis, {at: printable(str(place), 30) for at, place in enumerate(places)})
    if rows and max(high) > _SPREAD * min(low) > 0:
        axes.set_yscale("log")
    axes.set(xlabel=printable(name, 60), ylabel="runtime, s")
    return to_svg(figure, f"The predicted runtime at {len(rows)} values of {printable(name, 60)}.")


def calibration_plot(pairs: Sequence[tuple[float, float]]) -> Markup:
    """SVG: the share of held runs inside intervals of each level, beside the level itself."""
    figure, axes = panel(2.4)
    axes.plot([0, 1], [0, 1], color=COLOURS["line"], linewidth=1)
    curve(axes, *zip(*pairs, strict=True))
    per_cent(axes.xaxis)
    per_cent(axes.yaxis)
    axes.set(xlabel="level of the interval", ylabel="runs inside")
    return to_svg(figure, "The share of runs inside intervals of each level, beside the level itself.")


def curve_plot(pairs: Sequence[tuple[int, float]]) -> Markup:
    """SVG: the mean error on held folds by the number of runs learnt from."""
    figure, axes = panel(2.0)
    curve(axes, *zip(*pairs, strict=True))
    axes.set_xscale("log")
    named_ticks(axes.xaxis, {n: f"{n:,}" for n, _ in pairs})
    axes.set(xlabel="runs", ylabel="mean error, %", ylim=(0, None))
    return to_svg(figure, "The mean error on held folds by the number of runs learnt from.")


def inputs_page(title: str, summary: Mapping[str, Any], study: ModelStudy) -> str:
    """The page; the same model and study give the same bytes."""
    with styled():
        effects = [{"name": name, "plot": effect_plot(name, rows)} for name, rows in study.effects.items()]
        calibration, learning = calibration_plot(study.calibration), curve_plot(study.curve)
    return render_template(
        "inputs.html", title=title, summary=summary, sentence=error_sentence(summary["error"]),
        sizes=study.sizes, effects=effects, calibration=calibration, curve_plot=learning,
        more_runs=study.more_runs, n_more=MORE_RUNS,
    )  # fmt: skip
