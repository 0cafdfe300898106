"""Settings of grouping: the columns that make jobs similar, or how they are chosen by the log."""

from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from pipeline.core.columns import TEMPLATE_COLUMNS
from pipeline.core.section import Section

AUTO = ("auto",)
"""The value of `template` for a choice by the log."""

DEFAULT_TEMPLATE = ("user", "application", "requested_memory")
"""The template of a log that is too short for a comparison."""


def _listed(given: object) -> object:
    return (given,) if isinstance(given, str) else given


def _known_template(names: tuple[str, ...]) -> tuple[str, ...]:
    if names == AUTO:
        return names
    unknown = [name for name in names if name not in TEMPLATE_COLUMNS]
    if unknown:
        raise ValueError(f"{', '.join(unknown)} (valid are {', '.join(TEMPLATE_COLUMNS)}, or auto alone)")
    return names


Template = Annotated[tuple[str, ...], BeforeValidator(_listed), AfterValidator(_known_template)]


class GroupSettings(Section):
    """What makes jobs similar."""

    template: Template = Field(
        AUTO,
        min_length=1,
        description="Columns whose equal values form a group; auto: chosen by the error on the log's later jobs.",
    )
    series_worth: float = Field(
        0.1,
        ge=0,
        lt=1,
        description="Share by which the error may be larger if all processor-hours are in scalability series.",
    )
    keep_margin: float = Field(
        0.05,
        ge=0,
        lt=1,
        description="The previous template stays unless another one scores better by more than this share.",
    )
    min_later_jobs: int = Field(
        200, ge=1, description="Least number of later jobs to compare templates; with fewer the default is used."
    )

    compare_jobs: int = Field(
        1_000_000,
        ge=1,
        description="Least number of newest jobs on which templates are compared; at most half as many more are used.",
    )

    @property
    def columns(self) -> tuple[str, ...]:
        """The listed columns, or those of the default template if the log chooses."""
        return DEFAULT_TEMPLATE if self.template == AUTO else self.template
