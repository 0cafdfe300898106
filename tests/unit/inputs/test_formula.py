"""Formulas of derived inputs give what arithmetic gives, and nothing in them is executed."""

import ast
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import InputError
from pipeline.inputs.declaration import parsed_formula

X, Y = np.array([3.0, 8.0]), np.array([2.0, 0.5])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x*y", X * Y),
        ("x - y - 1", X - Y - 1),
        ("x / y / 2", X / Y / 2),
        ("1 + 2 * x", 1 + 2 * X),
        ("-(x + y) * 2", -(X + Y) * 2),
        ("x - -2", X + 2),
        ("ceil(log2(x))", np.ceil(np.log2(X))),
        ("min(x, y, 1)", np.minimum(np.minimum(X, Y), 1)),
        ("max(x, 4)", np.maximum(X, 4)),
        ("2.5e-1 * .5", np.full(2, 0.125)),
    ],
)
def test_a_formula_has_its_value(text: str, expected: np.ndarray) -> None:
    assert parsed_formula(text).evaluate({"x": X, "y": Y}, 2) == pytest.approx(expected)


@pytest.mark.parametrize("text", ["1/(x-3)", "log2(3-x)", "log2(0)"])
def test_an_undefined_value_is_unknown(text: str) -> None:
    assert np.isnan(parsed_formula(text).evaluate({"x": X}, 2)[0])


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "x +", "x y", "(x", "x)", "log2(x, y)", "sin(x)", "x ** y", "x.real", "x; y", "x[0]",
        "__import__('os')", "x == y",
        "lambda: x", "1e400 + +x", "é", "min()", "--x", "(" * 60 + "x" + ")" * 60, "9" * 5000,
        "+".join(["x"] * 500),
    ],
)  # fmt: skip
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="formula"):
        parsed_formula(text)


def test_the_names_are_those_of_the_inputs() -> None:
    assert parsed_formula("min(P, Q) * log2(N / NB)").names == {"P", "Q", "N", "NB"}


@given(st.text(alphabet="xy12.e+-*/(), log2ceilminmax_", max_size=40))
def test_any_text_is_a_formula_or_an_error(text: str) -> None:
    try:
        formula = parsed_formula(text)
    except InputError:
        return
    values = dict.fromkeys(formula.names, X)
    assert formula.evaluate(values, 2).shape == (2,)


OPERAND = st.sampled_from(["x", "y", "2", "0.5"])
FORMULA = st.recursive(
    OPERAND,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+-*/"), inner).map(lambda parts: f"({parts[0]} {parts[1]} {parts[2]})"),
        inner.map(lambda part: f"-({part})"),
        st.tuples(inner, inner).map(lambda parts: f"max({parts[0]}, {parts[1]})"),
    ),
    max_leaves=8,
)


@given(FORMULA)
def test_a_formula_means_what_it_means_in_python(text: str) -> None:
    ast.parse(text)
    try:
        expected = eval(text, {"max": max, "x": 3.0, "y": 2.0})
    except ZeroDivisionError:
        expected = math.nan
    found = parsed_formula(text).evaluate({"x": X, "y": Y}, 2)[0]
    # Division by zero inside max() is infinite here and an error in Python.
    assert math.isnan(expected) or found == pytest.approx(expected)
