"""Public functions describe every parameter and their result in sections, and their examples give what they show."""

import doctest
import importlib
import inspect
import re
from typing import Any

import pytest

from tests.architecture.sample_tables import LOG, namespace

DOCUMENTED = {
    "walltime": ("backtest", "clean", "estimate", "fit", "observe", "predict", "read", "replay"),
    "pipeline.ingest": ("ingest",),
    "pipeline.clean": ("clean",),
    "pipeline.group": ("assign_groups", "choose_template", "observe"),
    "pipeline.scaling.fit": ("fit",),
    "pipeline.scaling.screens": ("find_patterns", "level", "screen", "unlevel"),
    "pipeline.scaling.predictions": ("groups_by_application", "predict"),
    "pipeline.scaling.problem_sizes": ("predict_across", "weak_scaling"),
    "pipeline.scaling.advice": ("choices", "cost_of", "scalability"),
    "pipeline.estimate.history": ("history", "memory_history"),
    "pipeline.estimate.stage": ("learn_memory", "learn_state", "update_state"),
    "pipeline.estimate.state": ("estimate", "learn", "update", "walltime"),
    "pipeline.estimate.questions": ("basis_of", "completed", "questions_of"),
    "pipeline.estimate.estimates": ("make_estimates", "make_memory", "recommended_kib"),
    "pipeline.estimate.score": ("scores",),
    "pipeline.evaluate": ("backtest", "check_no_look_ahead", "evaluate_scaling"),
    "pipeline.evaluate.request_advice": ("memory_figures",),
    "pipeline.inputs": ("learn", "load", "predict", "save", "suggest"),
    "pipeline.publish": ("load_manifest",),
    "pipeline.storage": ("read_table",),
}
"""Public functions by the module they are imported from, so that a move within a package changes nothing here."""

FUNCTIONS = [(module, name) for module, names in DOCUMENTED.items() for name in names]
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL


def function(module: str, name: str) -> Any:
    return getattr(importlib.import_module(module), name)


def section(text: str, name: str) -> str:
    """The lines of a numpydoc section; empty where there is none."""
    found = re.search(rf"(?ms)^{name}\n-+\n(.*?)(?=^\w[\w ]*\n-+\n|\Z)", text)
    return found[1] if found else ""


@pytest.mark.parametrize(("module", "name"), FUNCTIONS)
def test_every_parameter_is_described(module: str, name: str) -> None:
    documented = function(module, name)
    text = inspect.getdoc(documented)
    described = re.findall(r"(?m)^([\w, ]+?) : ", section(text, "Parameters"))
    names = [one for line in described for one in line.split(", ")]
    assert names == list(inspect.signature(documented).parameters)
    returns_nothing = inspect.signature(documented).return_annotation in (None, "None")
    assert bool(section(text, "Returns")) != returns_nothing
    assert section(text, "Examples")


@pytest.mark.filterwarnings("ignore::walltime.UnreadableLinesWarning")
@pytest.mark.parametrize(("module", "name"), FUNCTIONS)
def test_examples_give_what_they_show(module: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    documented = function(module, name)
    monkeypatch.chdir(LOG.resolve().parents[1])
    known = {**inspect.getmodule(documented).__dict__, **namespace()}
    finder, runner = doctest.DocTestFinder(recurse=False), doctest.DocTestRunner(verbose=False, optionflags=FLAGS)
    (example,) = finder.find(documented, name, globs=known)
    assert example.examples
    report: list[str] = []
    assert runner.run(example, out=report.append).failed == 0, "".join(report)
