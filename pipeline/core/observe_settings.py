"""Settings of what a run says about itself."""

from typing import Literal

from pydantic import Field

from pipeline.core.section import Section


class ObserveSettings(Section):
    """How a run reports its progress and its end. No table depends on it."""

    log_format: Literal["text", "json"] = Field(
        "text", description="text: progress for people; json: one JSON object a line on stderr, one line an event."
    )
    metrics_file: str | None = Field(
        None,
        min_length=1,
        description="Where a run writes OpenMetrics text at its end, relative to the current folder; none by default.",
    )
