"""Settings of the checks that a night's tables pass before they are published."""

from typing import Literal

from pydantic import Field

from pipeline.core.section import Section

Mode = Literal["off", "warn", "block"]

_MODE = (
    "off: not run; warn: a failure is reported and the tables are published; block: yesterday's tables stay published."
)


class ContractCheck(Section):
    """Each file holds what its table declares; against the version before, only nullable columns were added."""

    mode: Mode = Field("block", description=_MODE)


class FewerRows(Section):
    """Tables that shrank since the version before."""

    mode: Mode = Field("block", description=_MODE)
    threshold: float = Field(0.5, ge=0, le=1, description="Largest share of a table's rows that may be gone.")


class MoreRows(Section):
    """Tables that grew since the version before."""

    mode: Mode = Field("warn", description=_MODE)
    threshold: float = Field(2.0, ge=1, description="Largest factor by which a table may grow.")


class NullShares(Section):
    """Columns that lost their values since the version before."""

    mode: Mode = Field("block", description=_MODE)
    threshold: float = Field(0.5, ge=0, le=1, description="Largest rise of a column's share of nulls.")


class Ranges(Section):
    """Values out of their range: runtimes that are not positive, quantiles that are out of order."""

    mode: Mode = Field("block", description=_MODE)
    threshold: float = Field(0.0, ge=0, le=1, description="Largest share of a table's rows out of one range.")


class CoverageCheck(Section):
    """Intervals and quantiles that held fewer later jobs than their level says."""

    mode: Mode = Field("warn", description=_MODE)
    threshold: float = Field(0.1, ge=0, le=1, description="Largest shortfall of the share that held.")
    min_jobs: int = Field(200, ge=1, description="Least number of scored jobs; with fewer the share is not checked.")


class NewestJob(Section):
    """The age of the newest job; off by default, because logs of archives are old."""

    mode: Mode = Field("off", description=_MODE)
    threshold: float = Field(2.0, gt=0, description="Largest time since the latest end of a kept job (days).")


class CheckSettings(Section):
    """What is checked before a night is published, and what a failure does."""

    contract: ContractCheck = ContractCheck()
    fewer_rows: FewerRows = FewerRows()
    more_rows: MoreRows = MoreRows()
    null_shares: NullShares = NullShares()
    ranges: Ranges = Ranges()
    coverage: CoverageCheck = CoverageCheck()
    newest_job: NewestJob = NewestJob()
    keep_held: int = Field(3, ge=1, description="Number of held versions that stay on disk.")
