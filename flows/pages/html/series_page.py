"""How an application scales, as one page of HTML without network access; every text from outside is escaped."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from markupsafe import Markup

from flows.pages.html.applications_table import FILTERS
from flows.pages.html.html_template import render_template
from flows.pages.html.series_plots import series_plot
from flows.pages.terminal.render import number
from flows.pages.terminal.render_series import weak_scaling_sentences
from flows.services.series.series_answers import priced
from pipeline.core.arrays import Floats
from pipeline.core.version import code_version
from pipeline.fit.envelope_outline import Outline, outline
from pipeline.laws import LAWS
from pipeline.predict.cost import CostSettings

_FIGURES = {
    "largest_useful_procs": "largest allocation that gains",
    "time_optimal_procs": "fastest",
    "working_set_procs": "processor working set",
    "efficiency_80_procs": "at 80% efficiency",
    "efficiency_50_procs": "at 50% efficiency",
}


def series_page(
    title: str,
    series: Sequence[Mapping[str, Any]],
    n_all: int | None = None,
    weak: Sequence[Mapping[str, Any]] = (),
    doubt: str = "",
) -> str:
    """The page of some series, as series_as_dicts gives them; the same series give the same bytes.

    The optional `curve` of a series holds predictions dense enough to draw; without it its predictions are drawn.
    `n_all`: number of series, where the page shows only some. `weak`: weak-scaling series.
    `doubt`: a sentence on the whole run.
    """
    views = [_view(one) for one in series]
    n_hidden = max(0, (n_all or 0) - len(views))
    weak_views = [(one, weak_scaling_sentences(one)) for one in weak]
    return _rendered("series.html", title=title, views=views, n_hidden=n_hidden, weak=weak_views, doubt=doubt)


def index_page(
    title: str,
    applications: Mapping[str, Any],
    others: Sequence[tuple[str, str]] = (),
    templates: Sequence[Mapping[str, Any]] = (),
    doubt: str = "",
) -> str:
    """The index of a run's pages: its applications, as `application_views` gives them; and the rows of TEMPLATES.

    `others`: name and file of further pages beside it.
    """
    content = {"title": title, "others": others, "templates": templates, "doubt": doubt, "version": code_version()}
    return render_template("index.html", FILTERS, **applications, **content)


def _rendered(template: str, **values: Any) -> str:
    return render_template(template, {"number": _number}, version=code_version(), **values)


def _view(one: Mapping[str, Any]) -> dict[str, Any]:
    observed, chosen = one["observations"], next((row for row in one["laws"] if row["is_chosen"]), None)
    curve = one.get("curve") or one["predictions"]
    excluded = [row for row in observed if row["fit_weight"] == 0]
    n_jobs = sum(row["n_jobs"] for row in observed)
    law = _law_curve(chosen, curve) if chosen and curve else None
    envelope = _envelope(one, curve) if curve else None
    plot = series_plot(observed, curve, law, envelope) if len(observed) > 1 else ""
    return {
        "name": one["series"],
        "summary": f"{n_jobs:,} runs at {len(observed)} sizes, {len(excluded)} of them left out of the fit.",
        "advice": _advice(one["predictions"] or curve),
        "patterns": [row["words"] for row in one["patterns"] if row["words"]],
        "figures": [(_whole((one["scalability"] or {}).get(name)), words) for name, words in _FIGURES.items()],
        "plot": Markup(plot),  # noqa: S704 # nosec B704 # drawn and escaped by series_plots
        "law": chosen["law"] if chosen else None,
        "envelope": f"{envelope.delta:.0%}" if envelope else None,
        "n_excluded": len(excluded),
        "observations": [dict(row) | {"kept": _kept(row)} for row in observed],
        "predictions": [row if "nodes" in row else priced(row, CostSettings()) for row in one["predictions"]],
        "across": one.get("across", []),
        "answer": one.get("answer", []),
        "energy": one.get("energy", []),
        "laws": one["laws"],
    }


def _law_curve(chosen: Mapping[str, Any], curve: Sequence[Mapping[str, Any]]) -> tuple[Floats, Floats]:
    procs = np.array([row["procs"] for row in curve], np.float64)
    given = {name: np.array(value, np.float64) for name, value in chosen.items() if isinstance(value, float)}
    return procs, LAWS[chosen["law"]].runtime_s(given, procs)


def _envelope(one: Mapping[str, Any], curve: Sequence[Mapping[str, Any]]) -> Outline | None:
    """ADEPT's envelope of the fitted sizes at the curve's counts; None where a pattern was removed before the fit."""
    if any(row["status"] == "found" and row["factor"] for row in one["patterns"]):
        return None
    rows = [row for row in one["observations"] if row["fit_weight"] != 0 and row["runtime_s_median"]]
    procs, runtime_s = (np.array([row[name] for row in rows], np.float64) for name in ("procs", "runtime_s_median"))
    return outline(procs, runtime_s, np.array([row["procs"] for row in curve], np.float64))


def _advice(predictions: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Each sentence of advice once, in order of processor counts, with the reliability of its first row."""
    found: dict[str, str] = {}
    for row in predictions:
        if row["advice"] and row["reliability"] != "ok":
            found.setdefault(row["advice"], row["reliability"])
    return list(found.items())


def _kept(row: Mapping[str, Any]) -> str:
    if row["fit_weight"] == 0:
        expected = f"; the other sizes predict {_number(row['expected_s'])} s" if row["expected_s"] else ""
        return f"left out: {row['odd'] or 'odd'}{expected}"
    if row["runtime_s_median"] is None:
        return "no: most runs were cut off"
    return "yes" if row["fit_weight"] in (None, 1.0) else f"at {row['fit_weight']:.2g} of its weight"


def _number(value: float | None) -> str:
    return "–" if value is None else number(value)


def _whole(procs: float | None) -> str:
    """A whole number of processors as text."""
    return _number(None if procs is None else int(procs))
