"""Predicts a run's time on another machine from the times of a small part of it.

    an MPI trace  -> calls.py or otf2.py -> MPI_CALLS -> clock.py -> phases.py -> PHASES, PHASE_POINTS ┐
    basic-block vectors -------------------------------> blocks.py -> PHASES, PHASE_POINTS ┴-> occurrences.py
    PHASES, PHASE_POINTS -> occurrences.py -> PHASE_PLAN
    PHASE_PLAN + measured times -> platforms.py -> PHASE_TIMES -> PLATFORM_PREDICTIONS

Where do I go to ...
    read another format of traces?           a reader beside otf2.py, and a line in READERS of phases.py
    learn which calls are events?            calls.py
    see how phases are found?                phases.py, with the events and the logical clock of clock.py
    change a constant of a paper?            phase_input.py
    choose what is timed?                    occurrences.py
    know when it does not pay?               occurrences.py
    get a runtime with an interval?          platforms.py
    find phases in another kind of input?    a PhaseInput (phase_input.py), and a line in INPUTS below

A phase's time is the mean over ranks of their progress through it, so that all occurrences add up to the run's time.
"""

from pathlib import Path

from pipeline.errors import InputError, printable
from pipeline.phases.blocks import PROBES
from pipeline.phases.phase_input import PhaseInput
from pipeline.phases.phases import MPI

INPUTS: dict[str, PhaseInput] = {one.name: one for one in (MPI, PROBES)}


def input_of(path: Path) -> PhaseInput:
    """The kind of input that knows the path by its content; InputError where none does."""
    if not path.exists():
        raise InputError(printable(str(path)), "no such file", "a trace or basic-block vectors")
    found = next((kind for kind in INPUTS.values() if kind.looks_right(path)), None)
    if found is None:
        expected = "; ".join(kind.expects for kind in INPUTS.values())
        raise InputError(printable(str(path)), "a file of another kind", f"one of: {expected}")
    return found
