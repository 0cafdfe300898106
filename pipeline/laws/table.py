"""The laws as the table that docs/reference/laws.md shows."""

import math

from pipeline.laws import AVERAGED, LAWS, Law
from pipeline.laws.law import Parameter, Solver

HEAD = """| law | T(n) | parameters beside T(1) | fitted | prior weight in the average | source |
| --- | --- | --- | --- | --- | --- |"""

SYMBOLS = {
    "avg_parallelism": "A",
    "serial_fraction": "f",
    "overhead_s": "c (s)",
    "exponent": "b",
    "growing_share": "c",
    "power": "p",
}

METHODS = {
    None: "no",
    Solver.GENERIC: "from its grid, by least squares",
    Solver.POWER: "by a search of its one shape",
    Solver.GEOMETRIC: "by a search of its one shape",
}


def laws_table() -> str:
    """A Markdown table of every law, a row each: as its file declares it."""
    laws = sorted({**LAWS, **AVERAGED}.values(), key=lambda law: (law.place, law.name))
    return "\n".join([HEAD, *[_row(law) for law in laws]])


def _row(law: Law) -> str:
    bounds = ", ".join(_bounds(one) for one in law.parameters) or "none"
    fitted = METHODS.get(law.solver, "exactly")
    weight = f"{law.averaging.weight:g}" if law.averaging else "not in it"
    return f"| {law.name} | {law.equation} | {bounds} | {fitted} | {weight} | {law.source} |"


def _bounds(one: Parameter) -> str:
    symbol = SYMBOLS.get(one.name, one.name)
    return f"{symbol} >= {one.low:g}" if math.isinf(one.high) else f"{symbol} in [{one.low:g}, {one.high:g}]"
