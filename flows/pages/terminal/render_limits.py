"""What `walltime advise` prints."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flows.pages.terminal.render import console, grid, number, say
from flows.services.limits.letters import clock

MOST_ROWS = 20


def print_limits(found: Mapping[str, Any], written: Mapping[str, Path]) -> None:
    """Print the promise and whether it was kept, then the users or accounts with most unused hours."""
    out, figures = console(), found["figures"]
    for line in _sentences(found, figures):
        out.print(line, soft_wrap=True)
    header = (found["by"], "recommended limit", "jobs", "processor-hours requested", "unused", "removed", "within")
    out.print(grid("", header, (_cells(row) for row in found["rows"][:MOST_ROWS]), texts=2))
    if len(found["rows"]) > MOST_ROWS:
        out.print(f"{len(found['rows']) - MOST_ROWS:,} more; --json or --out lists all of them.", soft_wrap=True)
    for name, path in written.items():
        out.print(f"Wrote {name} to {say(path, 1000)}", soft_wrap=True)


def _sentences(found: Mapping[str, Any], figures: Mapping[str, Any]) -> list[str]:
    """What the limits would have done, and how the submitters with many jobs fared."""
    within, removed, lost = (_percent(share) for share in (
        1.0 - figures["share_beyond"], figures["removed_share"], figures["lost_share"]
    ))  # fmt: skip
    said = [
        f"{say(found['log'])}: limits within which {found['promise']:.1%} of all jobs shall end. Of the later "
        f"{figures['n_jobs']:,} jobs {within} did.",
        f"The limits would have removed {removed} of the over-requested processor-hours; jobs beyond them would have "
        f"lost {lost} of the used ones.",
    ]
    if figures["worst_share"] is not None:
        said.append(
            f"{_percent(figures['worst_share'])} of the jobs of one submitter were beyond, the most among the "
            f"{figures['n_submitters']:,} with at least {found['many_jobs']:,} jobs; the bound is "
            f"{_percent(found['bound'])}."
        )
    return said


def _cells(row: Mapping[str, Any]) -> list[str]:
    first = next(iter(row["limits"]), None)
    said = f"{clock(first['limit_s'])} for {clock(first['requested_s'])}" if first else ""
    hours = [number(row[f"{name}_hours"]) for name in ("requested", "unused", "removed")]
    return [say(row["name"], 60), said, number(row["n_jobs"]), *hours, _percent(row["share_within"])]


def print_limit_scores(found: Mapping[str, Any]) -> None:
    """Print the figures of every rule side by side."""
    header = (
        "rule", "jobs", "beyond", "over-requested hours removed", "used hours lost",
        f"submitters with {found['many_jobs']}+ jobs", "worst of them",
    )  # fmt: skip
    rows = [
        [say(name), number(one["n_jobs"]),
         *(_percent(one[key]) for key in ("share_beyond", "removed_share", "lost_share")),
         number(one["n_submitters"]), _percent(one["worst_share"])]
        for name, one in found["rules"].items()
    ]  # fmt: skip
    console().print(grid(f"{say(found['log'])}, later half, promise {found['promise']:.1%}", header, rows))


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.1%}"
