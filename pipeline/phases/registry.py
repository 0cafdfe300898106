"""The kinds of input in which phases are found: a new one is a file and a line here."""

from importlib import import_module
from pathlib import Path
from typing import Any

from pipeline.core.errors import InputError
from pipeline.core.text import printable
from pipeline.phases.phase_input import PhaseInput

INPUTS = {
    "mpi": "pipeline.phases.mpi_input:MPI",
    "bbv": "pipeline.phases.probe_input:PROBES",
}
"""Per kind its PhaseInput, imported when it is asked."""


def input_named(name: str) -> PhaseInput:
    """The kind of this name; InputError where there is none."""
    if name not in INPUTS:
        raise InputError(f"input {printable(name, 60)}", "an unknown kind", f"one of {', '.join(INPUTS)}")
    module, _, attribute = INPUTS[name].partition(":")
    found: Any = getattr(import_module(module), attribute)
    return found  # type: ignore[no-any-return]


def input_of(path: Path) -> PhaseInput:
    """The kind that knows the path by its content; InputError where none does."""
    if not path.exists():
        raise InputError(printable(str(path)), "no such file", "a trace or basic-block vectors")
    kinds = [input_named(name) for name in INPUTS]
    found = next((kind for kind in kinds if kind.looks_right(path)), None)
    if found is None:
        expected = "; ".join(kind.expects for kind in kinds)
        raise InputError(printable(str(path)), "a file of another kind", f"one of: {expected}")
    return found
