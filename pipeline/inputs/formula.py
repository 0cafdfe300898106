"""Formulas of derived inputs: numbers, names of inputs, + - * / log2 ceil min max and parentheses. Nothing is evaluated
as code.

    sum     = product {("+" | "-") product}
    product = signed {("*" | "/") signed}
    signed  = ["-"] value
    value   = number | name | "(" sum ")" | ("log2" | "ceil") "(" sum ")" | ("min" | "max") "(" sum {"," sum} ")"
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from pipeline.core.arrays import Floats
from pipeline.core.errors import InputError
from pipeline.core.text import printable

MAX_CHARACTERS, MAX_DEPTH = 1000, 50
_TOKEN = re.compile(r"\s*(?:((?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|([A-Za-z_][A-Za-z0-9_]*)|([-+*/(),]))")
_ONE, _MANY = ("log2", "ceil"), ("min", "max")


@dataclass(frozen=True, slots=True)
class Node:
    """A part of a formula: an operator, a function, a name or a number, and the parts it applies to."""

    kind: str
    parts: tuple["Node", ...] = ()
    name: str = ""
    number: float = 0.0


def parse(text: str) -> Node:
    """The formula as a tree; InputError with the place of the first character that does not fit the grammar."""
    if len(text) > MAX_CHARACTERS:
        raise InputError(
            "formula", f"{len(text)} characters", f"at most {MAX_CHARACTERS}", "split it into derived inputs"
        )
    return _Parser(text).whole()


def names_in(node: Node) -> set[str]:
    """The names of the inputs that a formula reads."""
    return {node.name} if node.kind == "name" else {name for part in node.parts for name in names_in(part)}


def evaluate(node: Node, values: Mapping[str, Floats], n_rows: int) -> Floats:
    """(n_rows,) values of a formula; NaN where an input is NaN or the result is undefined or infinite."""
    with np.errstate(all="ignore"):
        found = np.broadcast_to(_value(node, values), (n_rows,)).astype(np.float64)
    return np.where(np.isfinite(found), found, np.nan)


def _value(node: Node, values: Mapping[str, Floats]) -> Floats:
    if node.kind == "number":
        return np.asarray(node.number)
    if node.kind == "name":
        return values[node.name]
    parts = [_value(part, values) for part in node.parts]
    found = parts[0]
    if len(parts) == 1:
        return _UNARY[node.kind](found)
    for part in parts[1:]:
        found = _BINARY[node.kind](found, part)
    return found


_UNARY = {"negative": np.negative, "log2": np.log2, "ceil": np.ceil, "min": np.positive, "max": np.positive}
_BINARY = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide, "min": np.minimum, "max": np.maximum}


class _Parser:
    """Recursive descent over the tokens of one formula."""

    def __init__(self, text: str) -> None:
        self.text, self.tokens, self.at, self.depth = text, _tokens(text), 0, 0

    def whole(self) -> Node:
        node = self.sum()
        if self.kind():
            raise self.error("an operator or the end")
        return node

    def sum(self) -> Node:
        return self._chain(self.product, ("+", "-"))

    def product(self) -> Node:
        return self._chain(self.signed, ("*", "/"))

    def _chain(self, part: "object", operators: tuple[str, ...]) -> Node:
        node: Node = part()  # type: ignore[operator]
        while self.kind() == "sign" and self.word() in operators:
            operator = self.take()
            node = Node(operator, (node, part()))  # type: ignore[operator]
        return node

    def signed(self) -> Node:
        if self.word() == "-":
            self.take()
            return Node("negative", (self.signed_once(),))
        return self.value()

    def signed_once(self) -> Node:
        if self.word() == "-":
            raise self.error("a number, a name or a parenthesis after the minus sign")
        return self.value()

    def value(self) -> Node:
        kind, word = self.kind(), self.word()
        if kind == "number":
            return Node("number", number=float(self.take()))
        if word == "(":
            return self.parentheses()[0]
        if kind != "name":
            raise self.error("a number, a name or a parenthesis")
        self.take()
        if self.word() != "(":
            return Node("name", name=word)
        return self.call(word)

    def call(self, word: str) -> Node:
        if word not in _ONE + _MANY:
            raise self.error(f"one of {', '.join(_ONE + _MANY)} before it", back=1)
        parts = self.parentheses()
        if word in _ONE and len(parts) > 1:
            raise self.error(f"one value in {word}()", back=1)
        return Node(word, parts)

    def parentheses(self) -> tuple[Node, ...]:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.error(f"at most {MAX_DEPTH} parentheses inside one another")
        self.take()
        parts = [self.sum()]
        while self.word() == ",":
            self.take()
            parts.append(self.sum())
        if self.word() != ")":
            raise self.error("a closing parenthesis")
        self.take()
        self.depth -= 1
        return tuple(parts)

    def kind(self) -> str:
        return self.tokens[self.at][0] if self.at < len(self.tokens) else ""

    def word(self) -> str:
        return self.tokens[self.at][1] if self.at < len(self.tokens) else ""

    def take(self) -> str:
        self.at += 1
        return self.tokens[self.at - 1][1]

    def error(self, expected: str, back: int = 0) -> InputError:
        at = max(self.at - back, 0)
        place = self.tokens[at][2] if at < len(self.tokens) else len(self.text)
        found = printable(self.tokens[at][1], 40) if at < len(self.tokens) else "the end"
        return InputError(f"formula {printable(self.text, 80)}, character {place + 1}", found, expected)


def _tokens(text: str) -> list[tuple[str, str, int]]:
    tokens, at = [], 0
    while at < len(text.rstrip()):
        match = _TOKEN.match(text, at)
        if not match:
            where = at + len(text[at:]) - len(text[at:].lstrip())
            raise InputError(
                f"formula {printable(text, 80)}, character {where + 1}", printable(text[where], 10),
                "numbers, names, + - * / log2 ceil min max and parentheses",
            )  # fmt: skip
        kind = "number" if match[1] else "name" if match[2] else "sign"
        tokens.append((kind, match[1] or match[2] or match[3], match.end() - len(match[1] or match[2] or match[3])))
        at = match.end()
    return tokens
