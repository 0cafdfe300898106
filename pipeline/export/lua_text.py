"""Values as literals of Lua, in which no text can end its literal."""

from collections.abc import Mapping, Sequence

Plain = str | bool | int | float | None | Sequence["Plain"] | Mapping[str, "Plain"]


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
