"""Sentences on what a sacct dump does differently, for the report."""

from pipeline.core.settings import IngestSettings
from pipeline.core.text import printable
from pipeline.ingest.reader import Remarks

ZONE = "zone "
"""What a remark on times without a zone of their own begins with; the zone they are read as of follows."""


def notes(remarks: Remarks, settings: IngestSettings) -> list[str]:
    """One sentence for each thing a person should know before trusting times, states and sizes."""
    said = [
        (remarks["ambiguous_times"], f"{remarks['ambiguous_times']} local times came twice when clocks went back: each "
         "is read as the first (export with TZ=UTC to tell)"),
        (remarks["skipped_times"], f"{remarks['skipped_times']} local times never were, because clocks went forward: "
         "each is read as the time after (is site.timezone right?)"),
        (remarks["slashed_times"], f"{remarks['slashed_times']} dates are written with slashes and read "
         f"{'day' if settings.sacct_day_first else 'month'} first (ingest.sacct_day_first)"),
        (remarks["put_together"], f"{remarks['put_together']} records hold the delimiter or a line's end in a text and "
         "were put together by where their columns fit"),
        (remarks["odd_energies"], f"{remarks['odd_energies']} energies are no number of joules, as in 101630 or 4.58M: "
         "each is unknown (ConsumedEnergyRaw, ConsumedEnergy)"),
        (remarks["without_runtime"] and remarks["without_runtime"] == remarks["jobs"],
         "no column tells how long jobs ran (Elapsed or ElapsedRaw): runtimes are unknown"),
    ]  # fmt: skip
    return [sentence for holds, sentence in said if holds] + _zone_notes(remarks) + _state_notes(remarks)


def _zone_notes(remarks: Remarks) -> list[str]:
    zones = [name.removeprefix(ZONE) for name, n in sorted(remarks.items()) if name.startswith(ZONE) and n]
    return [f"times without a zone are read as of {printable(zone, 60)} (site.timezone)" for zone in zones]


def _state_notes(remarks: Remarks) -> list[str]:
    strange = {name.removeprefix("state "): n for name, n in sorted(remarks.items()) if name.startswith("state ") and n}
    if not strange:
        return []
    listed = ", ".join(f"{printable(name, 30)} ({n})" for name, n in list(strange.items())[:8])
    return [f"states that Slurm's manual does not name are kept as they are: {listed}"]
