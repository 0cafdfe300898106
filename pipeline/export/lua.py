"""Values as literals of Lua, in which no text can end its literal, and regular expressions as trees.

Lua has no regular expressions; the matcher in job_submit.lua runs the trees. The rules for names of applications then
stand in one place, `pipeline/application_names.py`. Trees hold for ASCII texts; names with other letters are listed in
the look-up file. A node is a list: its kind, then its parts.

    {"set", R}          one character of the ranges R, a text of pairs of first and last characters
    {"repeat", L, H, S} the sequence S at least L and at most H times, as many as possible (H = -1: no bound)
    {"branch", {S}}     the first of the sequences that matches
    {"ahead", b, S}     the sequence matches here (b) or does not (not b); nothing is consumed
    {"behind", b, R}    the character before is in R (b); or is not, or there is none (not b)
    {"start"}, {"end"}  the start of the text; the end of the text, or before a line end that ends it
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

Plain = str | bool | int | float | None | Sequence["Plain"] | Mapping[str, "Plain"]
ASCII = frozenset(range(128))
_DIGITS = frozenset(map(ord, "0123456789"))
_SPACES = frozenset(code for code in ASCII if chr(code).isspace())
_WORD = frozenset(code for code in ASCII if chr(code).isalnum() or code == ord("_"))
_CATEGORIES = {
    "CATEGORY_DIGIT": _DIGITS, "CATEGORY_SPACE": _SPACES, "CATEGORY_WORD": _WORD,
    "CATEGORY_NOT_DIGIT": ASCII - _DIGITS, "CATEGORY_NOT_SPACE": ASCII - _SPACES, "CATEGORY_NOT_WORD": ASCII - _WORD,
}  # fmt: skip
_ONE_CHARACTER = {"LITERAL", "NOT_LITERAL", "ANY", "IN"}


def lua(value: Plain) -> str:
    """A literal: texts in double quotes, each byte but letters, digits, `_` and blank as \\ddd; lists and mappings as
    tables; None as nil.

    Keys of mappings are quoted as texts are. TypeError for another type.
    """
    if value is None or isinstance(value, bool):
        return {None: "nil", True: "true", False: "false"}[value]
    if isinstance(value, int | float):
        return f"{value:.17g}"
    if isinstance(value, str):
        return f'"{"".join(map(_byte, value.encode("utf-8", "surrogateescape")))}"'
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"[{lua(name)}] = {lua(one)}" for name, one in value.items()) + "}"
    if isinstance(value, Sequence):
        return "{" + ", ".join(lua(one) for one in value) + "}"
    raise TypeError(type(value).__name__)


def _byte(byte: int) -> str:
    character = chr(byte)
    return character if byte < 128 and (character.isalnum() or character in "_ ") else f"\\{byte:03d}"


def pattern_tree(pattern: str) -> list[Plain]:
    """The tree of a pattern that never matches an empty text; ValueError for what the matcher does not know."""
    parsed = re._parser.parse(pattern)  # type: ignore[attr-defined]
    if parsed.getwidth()[0] == 0:
        raise ValueError(f"{pattern}: may match an empty text")
    return _sequence(parsed)


def _sequence(items: Iterable[tuple[Any, Any]]) -> list[Plain]:
    found: list[Plain] = []
    for operator, argument in items:
        name = str(operator)
        if name == "SUBPATTERN":
            found += _sequence(argument[-1])
        else:
            found.append(_node(name, argument))
    return found


def _node(name: str, argument: Any) -> list[Plain]:
    if name in _ONE_CHARACTER:
        return ["set", _ranges(_set(name, argument))]
    if name not in _NODES:
        raise ValueError(f"{name} is unknown to the matcher")
    return _NODES[name](argument)


def _look(is_wanted: bool) -> Callable[[Any], list[Plain]]:
    def node(argument: Any) -> list[Plain]:
        direction, items = argument
        if direction > 0:
            return ["ahead", is_wanted, _sequence(items)]
        ((operator, of),) = items
        return ["behind", is_wanted, _ranges(_set(str(operator), of))]

    return node


def _at(argument: Any) -> list[Plain]:
    name = {"AT_BEGINNING": "start", "AT_END": "end"}.get(str(argument))
    if name is None:
        raise ValueError(f"{argument} is unknown to the matcher")
    return [name]


def _repeat(argument: Any) -> list[Plain]:
    least, most, items = argument
    return ["repeat", int(least), -1 if str(most) == "MAXREPEAT" else int(most), _sequence(items)]


_NODES: dict[str, Callable[[Any], list[Plain]]] = {
    "MAX_REPEAT": _repeat,
    "BRANCH": lambda argument: ["branch", [_sequence(items) for items in argument[1]]],
    "ASSERT": _look(True),
    "ASSERT_NOT": _look(False),
    "AT": _at,
}


def _set(name: str, argument: Any) -> frozenset[int]:
    if name == "LITERAL":
        return frozenset({argument})
    if name == "NOT_LITERAL":
        return ASCII - {argument}
    if name == "ANY":
        return ASCII - {ord("\n")}
    if name == "RANGE":
        return frozenset(range(argument[0], argument[1] + 1))
    if name == "CATEGORY":
        return _CATEGORIES[str(argument)]
    if name != "IN":
        raise ValueError(f"{name} is no set of characters")
    parts = [(str(operator), of) for operator, of in argument]
    union = frozenset().union(*(_set(one, of) for one, of in parts if one != "NEGATE"))
    return ASCII - union if ("NEGATE", None) in parts else union


def _ranges(codes: Iterable[int]) -> str:
    """Pairs of first and last characters of runs of codes."""
    runs: list[list[int]] = []
    for code in sorted(set(codes) & ASCII):
        if runs and runs[-1][1] == code - 1:
            runs[-1][1] = code
        else:
            runs.append([code, code])
    return "".join(map(chr, [code for run in runs for code in run]))


def rule_trees(rules: Collection[tuple[str, str]]) -> list[Plain]:
    """Of each rule (pattern, what replaces it) the tree and the replacement; ValueError for one that names a group."""
    for _, gives in rules:
        if "\\" in gives:
            raise ValueError(f"{gives}: a replacement with groups")
    return [[pattern_tree(find), gives] for find, gives in rules]
