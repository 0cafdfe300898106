"""What every settings table has in common."""

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A settings table: frozen, and closed to keys it does not know."""

    model_config = ConfigDict(extra="forbid", frozen=True)
