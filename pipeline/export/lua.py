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
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

Plain = str | bool | int | float | None | Sequence["Plain"] | Mapping[str, "Plain"]
_ASCII = tuple(map(chr, range(128)))
_ONE_CHARACTER = ("LITERAL", "NOT_LITERAL", "ANY", "IN")
_ENDS = {"AT_BEGINNING": "start", "AT_END": "end"}


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
        if str(operator) == "SUBPATTERN":
            found += _sequence(argument[-1])
        else:
            found.append(_node(operator, argument))
    return found


def _node(operator: Any, argument: Any) -> list[Plain]:
    match str(operator), argument:
        case name, _ if name in _ONE_CHARACTER:
            return ["set", _ranges(operator, argument)]
        case "MAX_REPEAT", (least, most, items):
            return ["repeat", int(least), -1 if str(most) == "MAXREPEAT" else int(most), _sequence(items)]
        case "BRANCH", (_, branches):
            return ["branch", [_sequence(items) for items in branches]]
        case ("ASSERT" | "ASSERT_NOT") as name, (1, items):
            return ["ahead", name == "ASSERT", _sequence(items)]
        case ("ASSERT" | "ASSERT_NOT") as name, (_, items) if len(items) == 1 and str(items[0][0]) in _ONE_CHARACTER:
            return ["behind", name == "ASSERT", _ranges(*items[0])]
        case "AT", end if str(end) in _ENDS:
            return [_ENDS[str(end)]]
    raise ValueError(f"{operator} {argument} is unknown to the matcher")


def _ranges(operator: Any, argument: Any) -> str:
    """Pairs of first and last characters of the runs of ASCII characters that a node of one character matches."""
    parsed = re._parser.SubPattern(re._parser.State(), [(operator, argument)])  # type: ignore[attr-defined]
    node = re._compiler.compile(parsed, re.UNICODE)  # type: ignore[attr-defined]
    is_matched = "".join("1" if node.fullmatch(one) else "0" for one in _ASCII)
    return "".join(chr(run.start()) + chr(run.end() - 1) for run in re.finditer("1+", is_matched))


def rule_trees(rules: Collection[tuple[str, str]]) -> list[Plain]:
    """Of each rule (pattern, what replaces it) the tree and the replacement; ValueError for one that names a group."""
    for _, gives in rules:
        if "\\" in gives:
            raise ValueError(f"{gives}: a replacement with groups")
    return [[pattern_tree(find), gives] for find, gives in rules]
