"""The page of a model over inputs, without network access; every text from a file is escaped."""

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from flows.pages.html.html_template import render_template
from flows.pages.html.inputs_plots import calibration_plot, curve_plot, effect_plot
from flows.pages.terminal.render import number
from flows.pages.terminal.render_inputs import error_sentence
from flows.services.inputs.model_study import MORE_RUNS, ModelStudy


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
