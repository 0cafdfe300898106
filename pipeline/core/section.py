"""The base class of all settings tables."""

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A settings table: frozen; unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)
