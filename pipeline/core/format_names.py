"""Which formats of logs a setting may name."""

from importlib import import_module

AUTO = "auto"


def known_format(name: str) -> str:
    """`auto`, or the name of a format that can be read; ValueError lists those there are.

    The formats stand above core, which imports none of them: their registry is loaded by name, and only to check a name
    that somebody wrote.
    """
    if name == AUTO:
        return name
    formats = import_module("pipeline.ingest.registry").FORMATS
    if name not in formats:
        raise ValueError(f"one of {', '.join((AUTO, *formats))}")
    return name
