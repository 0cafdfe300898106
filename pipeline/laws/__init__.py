"""Laws of scalability: pure maths, T(n; parameters). A new law is declared in a file here and entered below."""

from pipeline.laws.amdahl import AMDAHL, AMDAHL_LOG, CONSTANT, DOWDY, ERNEST, USL
from pipeline.laws.downey import DOWNEY, DOWNEY_HIGH, DOWNEY_LINEAR, DOWNEY_LOG, DOWNEY_LOW
from pipeline.laws.law import Law
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
    POWER, SMIRNI, GROWING, ERNEST,
):  # fmt: skip
    register(_law)
