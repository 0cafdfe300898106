"""Laws of scalability: pure maths, T(n; parameters). A new law is a new file in `forms`; nothing else names it."""

from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType

from pipeline.laws import forms
from pipeline.laws.law import Law

LAWS: dict[str, Law] = {}
"""The laws that can be fitted, by name, in order of place."""

AVERAGED: dict[str, Law] = {}
"""The laws that the model average runs over, by name, in order of their place in its grid."""


def register(module: ModuleType) -> None:
    """Enter every law that a module declares; ValueError where another law has its name."""
    for law in [value for value in vars(module).values() if isinstance(value, Law)]:
        if {**AVERAGED, **LAWS}.get(law.name, law) is not law:
            raise ValueError(f"{module.__name__}: found a second law {law.name}, expected a name of its own")
        if law.solver:
            LAWS[law.name] = law
        if law.averaging:
            AVERAGED[law.name] = law
    for laws, place in ((LAWS, _place), (AVERAGED, _place_in_grid)):
        ordered = sorted(laws.values(), key=place)
        laws.clear()
        laws.update((law.name, law) for law in ordered)


def _place(law: Law) -> tuple[int, str]:
    return law.place, law.name


def _place_in_grid(law: Law) -> tuple[int, str]:
    return law.averaging.place if law.averaging else law.place, law.name


for _found in iter_modules(forms.__path__, f"{forms.__name__}."):
    register(import_module(_found.name))

__all__ = ["AVERAGED", "LAWS", "Law", "register"]
