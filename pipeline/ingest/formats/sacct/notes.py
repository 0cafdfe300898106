"""Sentences on what a sacct dump does differently, for the report."""

from collections.abc import Collection

from pipeline.errors import printable
from pipeline.ingest.reader import Remarks
from pipeline.settings import IngestSettings

ZONE = "zone "
"""What a remark on times without a zone of their own begins with; the zone they are read as of follows."""


_MISSING = "missing "
_COSTS = {
    "submit_s": ("Submit", "cleaning sets them aside (impossible_times)"),
    "start_s": ("Start", "when they ran and how long they waited is unknown"),
    "end_s": ("End", "when they ended is unknown"),
    "elapsed": ("Elapsed", "their runtime is End - Start, less Suspended where that is known"),
    "runtime_s": ("Elapsed", "their runtime is unknown, and cleaning sets them aside (never_ran)"),
    "state": ("State", "which of them failed or were cancelled is unknown"),
    "procs": ("AllocCPUS", "their processors are unknown, and cleaning sets them aside (no_procs)"),
    "limit": ("Timelimit", "the time they requested is unknown"),
    "user": ("User", "jobs of different users are not told apart"),
}
"""What a missing column costs, by what it tells; `elapsed` is a runtime that start and end stand in for."""


def notes(remarks: Remarks, settings: IngestSettings) -> list[str]:
    """One sentence for each thing a person should know before trusting times, states and sizes."""
    said = [
        (remarks["ambiguous_times"], f"{_counted(remarks['ambiguous_times'], 'local time')} came twice when clocks "
         "went back: each is read as the first (export with TZ=UTC to tell)"),
        (remarks["settled_times"], f"{_counted(remarks['settled_times'], 'local time')} came twice when clocks went "
         "back and could be settled by Elapsed"),
        (remarks["skipped_times"], f"{remarks['skipped_times']} local times never were, because clocks went forward: "
         "each is read as the time after (is site.timezone right?)"),
        (remarks["slashed_times"], f"{remarks['slashed_times']} dates are written with slashes and read "
         f"{'day' if settings.day_first else 'month'} first (ingest.day_first)"),
        (remarks["put_together"], f"{remarks['put_together']} records hold the delimiter or a line's end in a text and "
         "were put together by where their columns fit"),
        (remarks["odd_energies"], f"{remarks['odd_energies']} energies are no number of joules, as in 101630 or 4.58M: "
         "each is unknown (ConsumedEnergyRaw, ConsumedEnergy)"),
    ]  # fmt: skip
    found = [sentence for holds, sentence in said if holds]
    return found + _column_notes(remarks) + _zone_notes(remarks) + _state_notes(remarks)


def missing_columns(sources: Collection[str], n_jobs: int) -> Remarks:
    """How many jobs lack each column that costs something, where a dump's columns tell only `sources`."""
    has_span = {"start_s", "end_s"} <= set(sources)
    stand_ins = {"procs": "requested_procs" in sources, "elapsed": not has_span, "runtime_s": has_span}
    known = {*sources, *(what for what, is_known in stand_ins.items() if is_known)}
    if "runtime_s" in sources:
        known.add("elapsed")
    if {"limit_min", "requested_s"} & set(sources):
        known.add("limit")
    return Remarks({f"{_MISSING}{what}": n_jobs for what in _COSTS if what not in known})


def _column_notes(remarks: Remarks) -> list[str]:
    return [
        f"{_counted(n, 'job')} come from a dump with no {column} column: {cost}"
        for what, (column, cost) in _COSTS.items()
        if (n := remarks[f"{_MISSING}{what}"])
    ]


def _counted(n: int, noun: str) -> str:
    return f"{n} {noun}{'' if n == 1 else 's'}"


def _zone_notes(remarks: Remarks) -> list[str]:
    zones = [name.removeprefix(ZONE) for name, n in sorted(remarks.items()) if name.startswith(ZONE) and n]
    return [f"times without a zone are read as of {printable(zone, 60)} (site.timezone)" for zone in zones]


def _state_notes(remarks: Remarks) -> list[str]:
    strange = {name.removeprefix("state "): n for name, n in sorted(remarks.items()) if name.startswith("state ") and n}
    if not strange:
        return []
    listed = ", ".join(f"{printable(name, 30)} ({n})" for name, n in list(strange.items())[:8])
    return [f"states that Slurm's manual does not name are kept as they are: {listed}"]
