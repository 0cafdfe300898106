"""What a check of a store finds, and what a check may look at."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from pipeline.core.errors import InputError
from pipeline.core.settings import RunSettings
from pipeline.core.text import printable
from pipeline.publish import Manifest


class Level(IntEnum):
    """How bad a finding is. A note needs nothing to be done."""

    NOTE = 0
    WARNING = 1
    ERROR = 2


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding: where, what was found, and what to do; the texts are escaped."""

    check: str
    level: Level
    where: str
    found: str
    do: str


@dataclass(frozen=True, slots=True)
class Store:
    """What the checks look at: a folder of published tables, its manifest, its config, the clock, the environment."""

    root: Path
    now_s: int
    manifest: Manifest | None
    manifest_error: InputError | None
    config: Path | None
    settings: RunSettings | None
    max_age_s: int
    environment: Mapping[str, str]

    def finding(self, check: str, level: Level, path: Path, found: str, do: str) -> Finding:
        """A finding on a path of this store."""
        return Finding(check, level, printable(str(path), 1000), found, do)


def of_error(check: str, level: Level, error: InputError) -> Finding:
    """A finding made of an error's parts."""
    found = f"{error.found}, expected {error.expected}" if error.expected else error.found
    return Finding(check, level, error.where, found, error.do or "see the sentence")


def duration(seconds: int) -> str:
    """A duration in days and hours, hours and minutes, or minutes, rounded down."""
    days, hours, minutes = seconds // 86_400, seconds % 86_400 // 3600, seconds % 3600 // 60
    if days:
        return f"{days} d {hours} h"
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"
