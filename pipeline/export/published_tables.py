"""What every writer of exports reads: the estimates of one published version, and the names its plug-ins need."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from pipeline.core.errors import InputError
from pipeline.core.export_settings import ExportSettings


@dataclass(frozen=True, slots=True)
class PublishedTables:
    """One published version, as far as exports read it."""

    estimates: pa.Table
    """ESTIMATES."""
    applications: Mapping[str, str]
    """The application of each job name that the built-in rules do not find (`known_applications`)."""
    has_hashed_names: bool
    """Whether users, accounts and names are keyed hashes."""
    has_own_name_rules: bool
    """Whether the site has rules that derive applications from job names."""


Files = Mapping[str, bytes]
"""The bytes of each file, by name."""

Writer = Callable[[PublishedTables, ExportSettings], Files]


def refuse_hashed_names(tables: PublishedTables, scheduler: str) -> None:
    """InputError where names are hashed: a scheduler's plug-in sees plain names, and would find no row of a user."""
    if tables.has_hashed_names:
        raise InputError(
            "the published tables", "hashed names, which a plug-in cannot look up", f"plain names for {scheduler}",
            "publish without anonymise into a folder that only the scheduler reads, and export from there",
        )  # fmt: skip
