"""Formulas of derived inputs: numbers, names of inputs, + - * / log2 ceil min max and parentheses, in Python's grammar.

Python parses a formula and nothing runs it: a part of any other kind is refused.
"""

import ast
import re
from collections.abc import Mapping

import numpy as np

from pipeline.arrays import Floats
from pipeline.errors import InputError, printable

MAX_CHARACTERS, MAX_DEPTH = 1000, 50
_OPERATORS = {ast.Add: np.add, ast.Sub: np.subtract, ast.Mult: np.multiply, ast.Div: np.divide}
_STRANGE = re.compile(r"[^-0-9A-Za-z_.+*/(), ]")
_NUMBER = re.compile(r"(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_ONE, _MANY = {"log2": np.log2, "ceil": np.ceil}, {"min": np.minimum, "max": np.maximum}
_ALL = _ONE | _MANY
_PARTS = f"numbers, names, + - * / {' '.join((*_ONE, *_MANY))} and parentheses"


def parse(text: str) -> ast.expr:
    """The formula as Python's tree; InputError with the place of the first part that is not allowed."""
    if len(text) > MAX_CHARACTERS:
        found, expected = f"{len(text)} characters", f"at most {MAX_CHARACTERS}"
        raise InputError("formula", found, expected, "split it into derived inputs")
    text = " ".join(text.split())
    if strange := _STRANGE.search(text):
        raise _error(text, strange.start(), printable(strange[0], 10), _PARTS)
    if _depth(text) > MAX_DEPTH:
        raise _error(text, 0, f"{_depth(text)} parentheses inside one another", f"at most {MAX_DEPTH}")
    try:
        node = ast.parse(text, mode="eval").body
    except SyntaxError as error:
        place = min((error.offset or 1) - 1, len(text))
        raise _error(text, place, printable(text[place : place + 20], 40) or "the end", _PARTS) from None
    _check(node, text)
    return node


def names_in(node: ast.expr) -> set[str]:
    """The names of the inputs that a formula reads."""
    functions = {id(one.func) for one in ast.walk(node) if isinstance(one, ast.Call)}
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and id(one) not in functions}


def evaluate(node: ast.expr, values: Mapping[str, Floats], n_rows: int) -> Floats:
    """(n_rows,) values of a formula; NaN where an input is NaN or the result is undefined or infinite."""
    with np.errstate(all="ignore"):
        found = np.broadcast_to(_value(node, values), (n_rows,)).astype(np.float64)
    return np.where(np.isfinite(found), found, np.nan)


def _check(node: ast.expr, text: str) -> None:
    """InputError for a part of a kind that formulas do not have."""
    match node:
        case ast.Constant(value=int() | float()) if _NUMBER.fullmatch(text[node.col_offset : node.end_col_offset]):
            parts: list[ast.expr] = []
        case ast.Name():
            parts = []
        case ast.UnaryOp(op=ast.USub(), operand=part) if not _is_sign_after_sign(text, node):
            parts = [part]
        case ast.BinOp() if type(node.op) in _OPERATORS:
            parts = [node.left, node.right]
        case ast.Call(func=ast.Name(id=name), args=[_, *others], keywords=[]) if name in (_MANY if others else _ALL):
            parts = node.args
        case _:
            raise _error(text, node.col_offset, printable(text[node.col_offset : node.end_col_offset], 40), _PARTS)
    for part in parts:
        _check(part, text)


def _is_sign_after_sign(text: str, node: ast.UnaryOp) -> bool:
    is_bare = "(" not in text[node.col_offset : node.operand.col_offset]
    return isinstance(node.operand, ast.UnaryOp) and is_bare


def _value(node: ast.expr, values: Mapping[str, Floats]) -> Floats:
    match node:
        case ast.Constant(value=int() | float() as number):
            # By its text, because a long whole number is infinite as others are.
            return np.asarray(float(str(number)))
        case ast.Name(id=name):
            return values[name]
        case ast.UnaryOp(operand=part):
            return np.negative(_value(part, values))
        case ast.BinOp(left=left, op=op, right=right):
            return _OPERATORS[type(op)](_value(left, values), _value(right, values))
        case ast.Call(func=ast.Name(id=name), args=args):
            parts = [_value(part, values) for part in args]
            return _ONE[name](parts[0]) if name in _ONE else _MANY[name].reduce(np.broadcast_arrays(*parts))
    raise TypeError(ast.dump(node))


def _depth(text: str) -> int:
    """The most parentheses inside one another."""
    steps = [(char == "(") - (char == ")") for char in text]
    return int(np.cumsum([0, *steps]).max())


def _error(text: str, place: int, found: str, expected: str) -> InputError:
    return InputError(f"formula {printable(text, 80)}, character {place + 1}", found, expected)
