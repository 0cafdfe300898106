"""What to learn, and how: the inputs of a run with types, columns with a role of their own, and a model's rules.

Formulas of derived inputs have numbers, names of inputs, + - * / log2 ceil min max and parentheses, in Python's
grammar. Python parses a formula and nothing runs it: a part of any other kind is refused.
"""

import ast
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal, Self

import numpy as np

from pipeline.arrays import Floats
from pipeline.errors import InputError, printable

MethodName = Literal["auto", "gp"]


class InputType(StrEnum):
    """How an input enters a model."""

    NUMBER = "number"
    LOG_NUMBER = "log_number"
    """A number that is never negative and whose ratios matter: sizes, counts."""
    CATEGORY = "category"
    BOOLEAN = "boolean"


@dataclass(frozen=True, slots=True)
class Input:
    """An input: the name of its column and its type, by name or member; ValueError for an unknown type."""

    name: str
    type: InputType
    is_inferred: bool = False
    """Whether nobody declared the type: whole numbers may then turn out to be codes."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "type", InputType(self.type))


@dataclass(frozen=True, slots=True)
class DerivedInput:
    """An input computed from others by a formula of + - * / log2 ceil min max and parentheses."""

    name: str
    formula: str


@dataclass(frozen=True, slots=True)
class Declaration:
    """What to learn from a table of runs. Names are columns of the table.

    Folds follow `batch` where it is given, else `time` where that is given; otherwise they are random. InputError for
    names that contradict one another.
    """

    inputs: tuple[Input, ...]
    derived: tuple[DerivedInput, ...] = ()
    target: str = "time_s"
    """Column of runtimes, s."""
    procs: str | None = None
    """Column of processors, for costs; usually also an input."""
    batch: str | None = None
    """Column that says which runs were made together."""
    time: str | None = None
    """Column of instants or of the order of runs."""
    censored: str | None = None
    """Boolean column: true where the runtime is only a lower bound."""

    def __post_init__(self) -> None:
        names = [one.name for one in self.inputs] + [one.name for one in self.derived]
        twice = sorted({name for name in names if names.count(name) > 1})
        if not self.inputs or "" in names:
            raise InputError("the declaration", "an input without a name" if names else "no input", "a name for each")
        if twice:
            raise InputError("the declaration", f"input {printable(twice[0])} twice", "every input once")
        if self.target in names:
            found = f"the target {printable(self.target)} among the inputs"
            raise InputError("the declaration", found, "other columns")

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Self:
        """The inverse of dataclasses.asdict; KeyError, TypeError or ValueError where it is damaged."""
        inputs = tuple(Input(**one) for one in plain["inputs"])
        return cls(**{**plain, "inputs": inputs, "derived": tuple(DerivedInput(**one) for one in plain["derived"])})


@dataclass(frozen=True, slots=True)
class LearnRules:
    """How a model of the runtime over inputs is learnt, and when it answers; docs/decisions says why."""

    method: MethodName = "auto"
    """gp: Gaussian processes; auto: and trees for what these leave, where that lowers the error on held folds."""
    gp_rows: int = 2000
    """Most runs that each of the processes is conditioned on, drawn for each from larger sets; the cost is cubic."""
    folds: int = 10
    seed: int = 0
    """Seed of the random folds and of every method that draws numbers."""
    outside: Literal["evidence", "predict", "refuse"] = "evidence"
    """Points outside the runs; evidence: refused where tests on the runs show that it fails."""
    largest_error: float = 0.5
    """Largest mean error (share) in such tests with which a point outside is still answered."""


MAX_OPERATIONS = 50
"""Operators, functions and parentheses nest at most as deep as there are of them."""
_OPERATORS = {ast.Add: np.add, ast.Sub: np.subtract, ast.Mult: np.multiply, ast.Div: np.divide}
_STRANGE = re.compile(r"[^-0-9A-Za-z_.+*/(), ]")
_NUMBER = re.compile(r"(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_ONE, _MANY = {"log2": np.log2, "ceil": np.ceil}, {"min": np.minimum, "max": np.maximum}
_ALL = _ONE | _MANY
_PARTS = f"numbers, names, + - * / {' '.join((*_ONE, *_MANY))} and parentheses"

Values = Mapping[str, Floats]


@dataclass(frozen=True, slots=True)
class Formula:
    """The names of the inputs that a formula reads, and the function from their values to its own."""

    names: frozenset[str]
    function: Callable[[Values], Floats]

    def evaluate(self, values: Values, n_rows: int) -> Floats:
        """(n_rows,) values; NaN where an input is NaN or the result is undefined or infinite."""
        with np.errstate(all="ignore"):
            found = np.broadcast_to(self.function(values), (n_rows,)).astype(np.float64)
        return np.where(np.isfinite(found), found, np.nan)


def parsed_formula(text: str) -> Formula:
    """The formula; InputError with the place of the first part that is not allowed."""
    text = " ".join(text.split())
    if strange := _STRANGE.search(text):
        raise _error(text, strange.start(), printable(strange[0], 10), _PARTS)
    if (n_operations := len(re.findall(r"[-+*/(]", text))) > MAX_OPERATIONS:
        raise _error(text, 0, f"{n_operations} operators and parentheses", f"at most {MAX_OPERATIONS} in each input")
    try:
        node = ast.parse(text, mode="eval").body
    except SyntaxError as error:
        place = min((error.offset or 1) - 1, len(text))
        raise _error(text, place, printable(text[place : place + 20], 40) or "the end", _PARTS) from None
    names: set[str] = set()
    function = _function_of(node, text, names)
    return Formula(frozenset(names), function)


def _function_of(node: ast.expr, text: str, names: set[str]) -> Callable[[Values], Floats]:
    """What a part computes, with its names added to `names`; InputError for a kind that formulas do not have."""
    own = text[node.col_offset : node.end_col_offset]
    match node:
        case ast.Constant(value=int() | float() as number) if _NUMBER.fullmatch(own):
            # By its text, because a long whole number is infinite as others are.
            constant = np.asarray(float(str(number)))
            return lambda _: constant
        case ast.Name(id=name):
            names.add(name)
            return lambda values: values[name]
        case ast.UnaryOp(op=ast.USub(), operand=part) if not _is_sign_after_sign(text, node):
            of = _function_of(part, text, names)
            return lambda values: np.negative(of(values))
        case ast.BinOp() if type(node.op) in _OPERATORS:
            operator = _OPERATORS[type(node.op)]
            left, right = (_function_of(part, text, names) for part in (node.left, node.right))
            return lambda values: operator(left(values), right(values))
        case ast.Call(func=ast.Name(id=name), args=[_, *others], keywords=[]) if name in (_MANY if others else _ALL):
            parts = [_function_of(part, text, names) for part in node.args]
            if name in _ONE:
                return lambda values: _ONE[name](parts[0](values))
            return lambda values: _MANY[name].reduce(np.broadcast_arrays(*(one(values) for one in parts)))
    raise _error(text, node.col_offset, printable(own, 40), _PARTS)


def _is_sign_after_sign(text: str, node: ast.UnaryOp) -> bool:
    is_bare = "(" not in text[node.col_offset : node.operand.col_offset]
    return isinstance(node.operand, ast.UnaryOp) and is_bare


def _error(text: str, place: int, found: str, expected: str) -> InputError:
    return InputError(f"formula {printable(text, 80)}, character {place + 1}", found, expected)
