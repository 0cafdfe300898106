"""Which laws a setting may name."""

from importlib import import_module


def known_law(name: str) -> str:
    """The name of a law that can be fitted; ValueError lists those there are.

    The laws stand above core, which imports none of them: their package is loaded by name, and only to check a name
    that somebody wrote.
    """
    laws = import_module("pipeline.laws").LAWS
    if name not in laws:
        raise ValueError(f"one of {', '.join(laws)}")
    return name
