"""Settings of models of the runtime over the inputs of a run."""

from typing import Annotated, Literal

import pyarrow as pa
from pydantic import AfterValidator, Field

from pipeline.core.section import Section

MethodName = Literal["auto", "gp", "trees", "network", "laws", "nearest"]


InputTypeName = Literal["number", "log_number", "category", "boolean"]
MAX_PATTERN = 500
"""Characters of a pattern; RE2 also refuses repetitions of more than 1,000."""


def whole_text_pattern(find: str) -> str:
    """The pattern as RE2 must match it: from the first to the last character of a text."""
    return rf"\A(?:{find})\z"


def _linear_pattern(find: str) -> str:
    """A pattern that RE2 accepts: it has no back-references and no look-around, so that its time is linear."""
    from pipeline.core import compute as pc  # noqa: PLC0415  (slow to import, and few configs have a pattern)

    if len(find) > MAX_PATTERN:
        raise ValueError(f"found {len(find)} characters, expected at most {MAX_PATTERN}")
    try:
        groups = pc.extract_regex(pa.array([], pa.string()), whole_text_pattern(find)).type
    except (pa.ArrowInvalid, ValueError) as error:
        raise ValueError(f"not a pattern of RE2 whose groups are (?P<name>...) or (?:...): {error}") from None
    if not groups.num_fields:
        raise ValueError("found no named group, expected one for each input, as in (?P<n>[0-9]+)")
    return find


INPUT_TEXTS = ("job_name", "comment", "submit_line")
"""A job's texts that rules may read."""


class InputRule(Section):
    """A rule that reads inputs from a job's text: each named group of `find` is an input.

    The whole text has to match. Patterns are RE2's, whose time is linear in the text, whatever users type.
    """

    text: Literal["job_name", "comment", "submit_line"] = Field("job_name", description="The text that has to match.")
    find: Annotated[str, AfterValidator(_linear_pattern)] = Field(
        description="An RE2 pattern whose named groups are inputs, as in heat_n(?P<n>[0-9]+)."
    )


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


class LogInputSettings(Section):
    """Models of the runtime over inputs that job names, comments or submit lines of a log name."""

    rules: tuple[InputRule, ...] = Field((), description="Rules that read inputs; the first match of a job wins.")
    types: dict[str, InputTypeName] = Field(
        default_factory=dict, description="Types of inputs by name; others are log_number, and texts unknown."
    )
    least_runs: int = Field(30, ge=10, description="Ended jobs of an application with which a model is first learnt.")
    most_runs: int = Field(300, ge=30, le=2000, description="Latest ended jobs that a model learns from.")
    least_scored: int = Field(
        20, ge=5, description="Answered and ended jobs on which a model must have beaten the rivals to be published."
    )
    most_groups: int = Field(100, ge=1, description="Applications with a model, the first to have enough jobs.")
    learning: InputSettings = InputSettings(folds=5)
