"""Settings of the group room: which columns make jobs similar, or how the log chooses them."""

from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from pipeline.core.columns import TEMPLATE_COLUMNS
from pipeline.core.section import Section

AUTO = ("auto",)
"""The template setting that leaves the choice to the log."""

DEFAULT_TEMPLATE = ("user", "application", "requested_memory")
"""The template of a log that is too short to compare any."""


def _listed(given: object) -> object:
    return (given,) if isinstance(given, str) else given


def _known_template(names: tuple[str, ...]) -> tuple[str, ...]:
    if names == AUTO:
        return names
    strange = [name for name in names if name not in TEMPLATE_COLUMNS]
    if strange:
        raise ValueError(f"{', '.join(strange)} (a template may name {', '.join(TEMPLATE_COLUMNS)}, or be auto)")
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

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns listed, or the default's where the log is to choose."""
        return DEFAULT_TEMPLATE if self.template == AUTO else self.template
