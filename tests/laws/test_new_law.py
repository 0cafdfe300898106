"""A new law is one declaration: fits, the choice among laws, the average, settings and the documents' table follow."""

import dataclasses
import importlib.util
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from docs.tools.reference_tables import laws_table
from pipeline.laws import AVERAGED, LAWS, Law, Parameter, register
from pipeline.scaling.average import average, shape_grid
from pipeline.scaling.fit import FitRules, fit, fit_law
from pipeline.scaling.series import SeriesBatch
from tests.rows import curve, observations_of

FILE = '''
"""Amdahl's law with messages along the edge of a square: T(n) = T(1) (f + (1 - f)/n) + c (sqrt n - 1)."""

from dataclasses import replace

import numpy as np

from pipeline.laws import AMDAHL, Parameter, powers


EDGE = replace(
    AMDAHL, name="edge", equation="T(1) (f + (1 - f)/n) + c (sqrt n - 1)", source="a test", family="",
    parameters=(
        Parameter("serial_fraction", 0.0, 1.0, (0.0, *powers(-10, 0))),
        Parameter("overhead_s", 0.0, np.inf, (0.0, *powers(-12, 0))),
    ),
    overhead=lambda n: np.sqrt(np.maximum(n, 1.0)) - 1.0, forms=(), prior_weight=2.0,
)
'''
SIZES = (1, 2, 4, 8, 16, 32, 64, 128)
TRUTH = {"t1_s": 1000.0, "serial_fraction": 0.02, "overhead_s": 12.0}


@pytest.fixture
def edge(tmp_path: Path) -> Iterator[Law]:
    """The law, read from a file of its own, for one test."""
    before = dict(LAWS), dict(AVERAGED)
    path = tmp_path / "edge.py"
    path.write_text(FILE)
    spec = importlib.util.spec_from_file_location("edge", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    register(module.EDGE)
    yield LAWS["edge"]
    for laws, own in zip((LAWS, AVERAGED), before, strict=True):
        laws.clear()
        laws.update(own)


def test_it_is_fitted_and_chosen_where_it_is_the_truth(edge: Law) -> None:
    settings = FitRules(laws=("constant", "amdahl", "downey_low", "downey_high", "usl", "edge"))
    table, _ = fit(observations_of({"own": curve("edge", SIZES, **TRUTH)}), settings)
    (row,) = [row for row in table.to_pylist() if row["is_chosen"]]
    assert (row["law"], row["status"]) == ("edge", "ok")
    assert {name: row[name] for name in TRUTH} == pytest.approx(TRUTH, rel=1e-5)
    assert edge.n_parameters == 3
    assert list(LAWS)[-1] == "edge"


def test_series_that_nothing_fits_have_the_usual_statuses(edge: Law) -> None:
    n, t = np.array([1.0, 2, 1, 2, 4, 1, 2, 4, 8]), np.array([9.0, 5, 9, np.nan, 3, 8, 4, 2, 1])
    found = fit_law("edge", SeriesBatch(np.array([0, 2, 5, 9]), n, t, np.ones(9)))
    assert found.status.tolist() == ["too_few_points", "bad_values", "at_bound"]
    assert (found.serial_fraction[2], found.overhead_s[2]) == (0.0, 0.0)
    assert found.t1_s[2] == pytest.approx(8.0)


def test_it_takes_part_in_the_average_by_its_prior_weight(edge: Law) -> None:
    counts = [law.formula(law.grid(), np.ones((1, 1))).shape[1] for law in AVERAGED.values()]
    shares = np.add.reduceat(shape_grid().prior, np.cumsum([0, *counts[:-1]]))
    assert list(AVERAGED)[-1] == "edge"
    assert shares[-1] / shares[list(AVERAGED).index("constant")] == pytest.approx(2.0)
    n = np.array(SIZES, float)
    t = edge.runtime_s({"t1_s": 1.0, "serial_fraction": 2.0**-6, "overhead_s": 2.0**-5}, n)
    sizes = SeriesBatch(np.array([0, 6]), n[:6], t[:6], np.full(6, 0.01**-2))
    targets = np.zeros(2, np.int64), n[6:]
    own = np.abs(average(sizes, *targets).log_s - np.log(t[6:]))
    del AVERAGED["edge"]
    others = np.abs(average(sizes, *targets).log_s - np.log(t[6:]))
    assert (own < others).all() and own[0] < 0.5 * others[0], (own, others)


def test_the_table_of_laws_has_its_row(edge: Law) -> None:
    (row,) = [line for line in laws_table().splitlines() if line.startswith("| edge |")]
    cells = ["edge", edge.equation, "f in [0, 1], c (s) >= 0", "search", "2", "a test"]
    assert row.strip("| ").split(" | ") == cells


def test_the_documents_show_the_laws_as_they_are_declared() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "laws.md").read_text(encoding="utf-8")
    assert laws_table() in page, f"`make reference` writes the table of laws:\n{laws_table()}"


@pytest.mark.parametrize("law", ["amdahl", "dowdy", "usl", "amdahl_log"])
def test_a_formula_alone_is_fitted_as_well_as_by_the_form_declared(law: str) -> None:
    rng = np.random.default_rng(6)
    n = np.array(SIZES, float)
    given = {"t1_s": np.full(20, 900.0), "serial_fraction": rng.uniform(0, 0.2, 20)}
    given |= {"avg_parallelism": np.exp(rng.uniform(1, 5, 20)), "overhead_s": rng.uniform(0.1, 20, 20)}
    t = LAWS[law].runtime_s({name: values[:, None] for name, values in given.items()}, n)
    t = t * np.exp(rng.normal(0, 0.05, t.shape))
    batch = SeriesBatch(np.arange(0, 161, 8), np.tile(n, 20), t.ravel(), np.ones(160))
    declared = fit_law(law, batch)
    plain = dataclasses.replace(LAWS[law], name="plain", forms=())
    assert plain.forms[0].shape == LAWS[law].parameters[0]
    register(plain)
    try:
        found = fit_law("plain", batch)
    finally:
        del LAWS["plain"]
        AVERAGED.pop("plain", None)
    assert found.wssre == pytest.approx(declared.wssre, rel=1e-9)
    assert found.status.tolist() == declared.status.tolist()


def test_a_declaration_that_nothing_could_fit_is_refused(edge: Law) -> None:
    def law(one: Parameter, name: str = "odd") -> Law:
        return Law(name, "", "", edge.curve, (one,))

    with pytest.raises(ValueError, match="law odd: found parameter alpha, expected one of avg_parallelism"):
        law(Parameter("alpha", 0.0, 1.0, (0.5,)))
    with pytest.raises(ValueError, match="law edge: found no grid of serial_fraction"):
        dataclasses.replace(edge, parameters=(Parameter("serial_fraction", 0.0, 1.0), edge.parameters[1]))
    with pytest.raises(ValueError, match="law edge: found the shapes serial_fraction, exponent, expected at most one"):
        one = Parameter("exponent", 0.0, 1.0, (0.5,))
        dataclasses.replace(edge, parameters=(*edge.parameters, one), forms=())
    with pytest.raises(ValueError, match="found a second law edge"):
        register(law(Parameter("sigma", 0.0, 1.0, (0.5,)), "edge"))


@pytest.mark.parametrize("law", ["downey_low", "downey_high"])
def test_the_kernels_formula_is_the_declared_one(law: str) -> None:

    from pipeline.scaling.adept import downey
    from pipeline.scaling.downey import curve as kernel_curve

    is_high = law == "downey_high"
    for A, sigma in ((1.0, 1.0), (7.3, 1.0), (12.0, 0.3 if not is_high else 2.5)):
        t1 = A * (1.0 + sigma) if is_high else A
        for n in (1.0, 3.0, 7.0, 12.5, 20.0, 60.0):
            declared = float(LAWS[law].runtime_s({"t1_s": t1, "avg_parallelism": A, "sigma": sigma}, n))
            assert downey(n, A, sigma, is_high) == pytest.approx(declared, rel=1e-12)
            if not is_high:
                assert kernel_curve(n, 1.0, 0.5 * sigma, A, False) == pytest.approx(declared, rel=1e-12)
