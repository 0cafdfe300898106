"""What `walltime limits --memory` prints."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from flows.pages.formats import fixed, percent
from flows.pages.terminal.blocks import Block, Column, Grid, text, wrote
from flows.pages.terminal.view_scheduler import MOST_ROWS
from flows.services.quantities import memory_text


def view_memory_advice(found: Mapping[str, Any], written: Mapping[str, Path]) -> Iterator[Block]:
    """What the recommended memory would have done, then the users or accounts with most memory not used."""
    yield from _promise(found, found["figures"], found["asked"])
    columns = (
        text(found["by"], "name", limit=60),
        text("ask for, per processor", _first_kind),
        Column("jobs", "n_jobs"),
        Column("GiB a job requested", "requested_gib", fixed),
        Column("used", "used_gib", fixed),
        Column("recommended", "recommended_gib", fixed),
        Column("within", "share_within", percent),
    )
    yield Grid("", columns, found["rows"][:MOST_ROWS])
    if len(found["rows"]) > MOST_ROWS:
        yield f"{len(found['rows']) - MOST_ROWS:,} more; --json or --out lists all of them."
    yield from wrote(written)


def _first_kind(row: Mapping[str, Any]) -> str:
    first = next(iter(row["kinds"]), None)
    if first is None:
        return ""
    instead = f" for {memory_text(first['requested_mem_kib'])}" if first["requested_mem_kib"] else ""
    return f"{memory_text(first['recommended_mem_kib'])}{instead}"


def _promise(found: Mapping[str, Any], ours: Mapping[str, Any], asked: Mapping[str, Any]) -> Iterator[Block]:
    yield (
        f"{found['log']}: memory that {found['promise']:.1%} of all jobs shall stay under. Of the later "
        f"{ours['n_jobs']:,} jobs {percent(1.0 - ours['share_under'])} did; {percent(ours['over_allocation'], 0)} more "
        "was given than used."
    )
    if asked["n_jobs"]:
        yield (
            f"The requests themselves: {percent(1.0 - asked['share_under'])} of {asked['n_jobs']:,} jobs stayed under "
            f"theirs; {percent(asked['over_allocation'], 0)} more was requested than used."
        )
    if ours["worst_share"] is not None:
        yield (
            f"{percent(ours['worst_share'])} of the jobs of one submitter would have had too little, the most among "
            f"the {ours['n_submitters']:,} with at least {found['many_jobs']:,} jobs."
        )


def view_memory_scores(found: Mapping[str, Any]) -> Iterator[Block]:
    """The figures of every rule side by side."""
    columns = (
        text("rule"),
        Column("jobs", "n_jobs"),
        Column("given too little", "share_under", percent),
        Column("given and not used, of used", "over_allocation", percent),
        Column(f"submitters with {found['many_jobs']}+ jobs", "n_submitters"),
        Column("worst of them", "worst_share", percent),
    )
    rows = [{"rule": name, **one} for name, one in found["rules"].items()]
    yield Grid(f"{found['log']}, later third, memory, promise {found['promise']:.1%}", columns, rows)
