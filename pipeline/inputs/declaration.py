"""What to learn, and how: the inputs of a run with types, columns with a role of their own, and a model's rules."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal, Self

from pipeline.errors import InputError, printable

MethodName = Literal["auto", "gp", "trees", "network", "laws", "nearest"]


class InputType(StrEnum):
    """How an input enters a model."""

    NUMBER = "number"
    LOG_NUMBER = "log_number"
    """A number that is never negative and whose ratios matter: sizes, counts."""
    CATEGORY = "category"
    BOOLEAN = "boolean"


@dataclass(frozen=True, slots=True)
class Input:
    """An input: the name of its column and its type, by name or member; ValueError for an unknown type."""

    name: str
    type: InputType

    def __post_init__(self) -> None:
        object.__setattr__(self, "type", InputType(self.type))


@dataclass(frozen=True, slots=True)
class DerivedInput:
    """An input computed from others by a formula of + - * / log2 ceil min max and parentheses (see `formula`)."""

    name: str
    formula: str


@dataclass(frozen=True, slots=True)
class Declaration:
    """What to learn from a table of runs. Names are columns of the table.

    Folds follow `batch` where it is given, else `time` where that is given; otherwise they are random. InputError for
    names that contradict one another.
    """

    inputs: tuple[Input, ...]
    derived: tuple[DerivedInput, ...] = ()
    target: str = "time_s"
    """Column of runtimes, s."""
    procs: str | None = None
    """Column of processors, for costs; usually also an input."""
    batch: str | None = None
    """Column that says which runs were made together."""
    time: str | None = None
    """Column of instants or of the order of runs."""
    censored: str | None = None
    """Boolean column: true where the runtime is only a lower bound."""

    def __post_init__(self) -> None:
        names = [one.name for one in self.inputs] + [one.name for one in self.derived]
        twice = sorted({name for name in names if names.count(name) > 1})
        if not self.inputs or "" in names:
            raise InputError("the declaration", "an input without a name" if names else "no input", "a name for each")
        if twice:
            raise InputError("the declaration", f"input {printable(twice[0])} twice", "every input once")
        if self.target in names:
            found = f"the target {printable(self.target)} among the inputs"
            raise InputError("the declaration", found, "other columns")

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Self:
        """The inverse of dataclasses.asdict; KeyError, TypeError or ValueError where it is damaged."""
        nested = {
            "inputs": tuple(Input(**one) for one in plain["inputs"]),
            "derived": tuple(DerivedInput(**one) for one in plain["derived"]),
        }
        return cls(**{**plain, **nested})


@dataclass(frozen=True, slots=True)
class LearnRules:
    """How a model of the runtime over inputs is learnt, and when it answers; docs/decisions says why."""

    method: MethodName = "auto"
    """auto: of gp and trees the one with the smaller error on held folds."""
    gp_rows: int = 2000
    """Most runs that each of the processes is conditioned on, drawn for each from larger sets; the cost is cubic."""
    folds: int = 10
    seed: int = 0
    """Seed of the random folds and of every method that draws numbers."""
    outside: Literal["evidence", "predict", "refuse"] = "evidence"
    """Points outside the runs; evidence: refused where tests on the runs show that it fails."""
    largest_error: float = 0.5
    """Largest mean error (share) in such tests with which a point outside is still answered."""
