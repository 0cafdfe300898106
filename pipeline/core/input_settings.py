"""Settings of models of the runtime over the inputs of a run."""

from typing import Literal

from pydantic import Field

from pipeline.core.section import Section

MethodName = Literal["auto", "gp", "trees", "network", "laws", "nearest"]


class InputSettings(Section):
    """How a model of the runtime over inputs is learnt, and when it answers."""

    method: MethodName = Field(
        "auto", description="The method; auto: gp up to `gp_rows` runs, trees above (see `walltime learn --help`)."
    )
    gp_rows: int = Field(2000, ge=10, description="Largest number of runs that auto gives to gp; its cost is cubic.")
    folds: int = Field(10, ge=3, le=50, description="Number of folds, which is also the number of members of a model.")
    seed: int = Field(0, ge=0, description="Seed of the random folds and of every method that draws numbers.")
    network_target: Literal["seconds", "log"] = Field(
        "seconds", description="What a network learns: seconds with weights 1/runtime, as published, or log seconds."
    )
    network_members: Literal["folds", "bags"] = Field(
        "folds", description="How a network's members are drawn: cross-validation folds, or bootstrap samples."
    )
    outside: Literal["evidence", "predict", "refuse"] = Field(
        "evidence",
        description="Points outside the runs; evidence: refused where tests on the runs show that it fails.",
    )
    largest_error: float = Field(
        0.5, gt=0, description="Largest mean error (share) in such tests with which a point outside is still answered."
    )
