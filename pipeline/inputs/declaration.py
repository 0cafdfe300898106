"""What the inputs of a run are: their types, the derived ones, and the columns with a role of their own."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Self

from pydantic import Field, model_validator

from pipeline.core.section import Section


class InputType(StrEnum):
    """How an input enters a model."""

    NUMBER = "number"
    LOG_NUMBER = "log_number"
    """A number that is never negative and whose ratios matter: sizes, counts."""
    CATEGORY = "category"
    BOOLEAN = "boolean"


class Input(Section):
    """An input: the name of its column and its type."""

    name: str = Field(min_length=1)
    type: InputType


class DerivedInput(Section):
    """An input computed from others by a formula of + - * / log2 ceil min max and parentheses (see `formula`)."""

    name: str = Field(min_length=1)
    formula: str = Field(min_length=1)


class ScalingPrior(Section):
    """The scalability law of the runs' group: a model with one learns how runs differ from it."""

    law: str = Field(description="Name in pipeline.laws.LAWS.")
    parameters: Mapping[str, float] = Field(description="t1_s and the law's parameters, as columns of FITS.")


class Declaration(Section):
    """What to learn from a table of runs. Names are columns of the table.

    Folds follow `batch` where it is given, else `time` where that is given; otherwise they are random.
    """

    inputs: tuple[Input, ...] = Field(min_length=1)
    derived: tuple[DerivedInput, ...] = ()
    target: str = Field("time_s", description="Column of runtimes, s.")
    procs: str | None = Field(None, description="Column of processors: for costs and the law; usually also an input.")
    batch: str | None = Field(None, description="Column that says which runs were made together.")
    time: str | None = Field(None, description="Column of instants or of the order of runs.")
    censored: str | None = Field(None, description="Boolean column: true where the runtime is only a lower bound.")
    prior: ScalingPrior | None = None

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        names = [one.name for one in self.inputs] + [one.name for one in self.derived]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"found input {twice[0]} twice, expected every input once")
        if self.target in names:
            raise ValueError(f"found the target {self.target} among the inputs, expected other columns")
        if self.prior and not self.procs:
            raise ValueError("found a scalability law without a column of processors, expected `procs`")
        return self
