"""Laws of scalability: pure maths, T(n; parameters). A new law is declared in a file here and entered below."""

import math

from pipeline.laws.amdahl import AMDAHL, AMDAHL_LOG, CONSTANT, DOWDY, USL
from pipeline.laws.downey import DOWNEY, DOWNEY_HIGH, DOWNEY_LINEAR, DOWNEY_LOG, DOWNEY_LOW
from pipeline.laws.law import Law, Parameter
from pipeline.laws.power import GROWING, POWER, SMIRNI

LAWS: dict[str, Law] = {}
"""The laws that can be fitted, by name, in order of place."""

AVERAGED: dict[str, Law] = {}
"""The laws that the model average runs over, by name, in order of their place in its grid."""


def register(law: Law) -> None:
    """Enter a law; ValueError where another law has its name."""
    if {**AVERAGED, **LAWS}.get(law.name, law) is not law:
        raise ValueError(f"found a second law {law.name}, expected a name of its own")
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


for _law in (
    CONSTANT, AMDAHL, AMDAHL_LOG, USL, DOWDY,
    DOWNEY, DOWNEY_LOW, DOWNEY_HIGH, DOWNEY_LINEAR, DOWNEY_LOG,
    POWER, SMIRNI, GROWING,
):  # fmt: skip
    register(_law)


_HEAD = """| law | T(n) | parameters beside T(1) | fitted | prior weight in the average | source |
| --- | --- | --- | --- | --- | --- |"""

_SYMBOLS = {
    "avg_parallelism": "A",
    "serial_fraction": "f",
    "overhead_s": "c (s)",
    "exponent": "b",
    "growing_share": "c",
    "power": "p",
}


def laws_table() -> str:
    """A Markdown table of every law, a row each: as its file declares it."""
    laws = sorted({**LAWS, **AVERAGED}.values(), key=lambda law: (law.place, law.name))
    return "\n".join([_HEAD, *[_row(law) for law in laws]])


def _row(law: Law) -> str:
    bounds = ", ".join(_bounds(one) for one in law.parameters) or "none"
    is_searched = law.form is not None and law.form.shape is not None
    fitted = "by a search of its one shape" if is_searched else "exactly" if law.solver else "no"
    weight = f"{law.averaging.weight:g}" if law.averaging else "not in it"
    return f"| {law.name} | {law.equation} | {bounds} | {fitted} | {weight} | {law.source} |"


def _bounds(one: Parameter) -> str:
    symbol = _SYMBOLS.get(one.name, one.name)
    return f"{symbol} >= {one.low:g}" if math.isinf(one.high) else f"{symbol} in [{one.low:g}, {one.high:g}]"
