"""What is seen of published tables while they are served: their age, their jobs, the runs, and the memory of serve."""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median

MINUTE_S = 60
BUCKET_MIN = 5


@dataclass(frozen=True)
class Look:
    """One look, at `at_s` seconds since the first: of the tables their age and jobs, of the source its watermark."""

    at_s: float
    table_age_s: float | None
    """Seconds since the newest version was made; None where there is none."""
    data_age_s: float | None
    """Seconds since the time up to which sacct was read for it."""
    run_id: str
    n_jobs: int
    serve_mib: float
    server_mib: float
    is_up: bool
    """Whether nothing has been killed, or all is up and a later version is published."""


def worst_by_minute(looks: Sequence[Look]) -> dict[int, float]:
    """The greatest age of the tables in each minute in which everything was up from the first version on."""
    worst: dict[int, float] = {}
    for look in looks:
        if look.is_up and look.table_age_s is not None:
            minute = int(look.at_s // MINUTE_S)
            worst[minute] = max(worst.get(minute, 0.0), look.table_age_s)
    return worst


def growth_mib(looks: Sequence[Look], settle_s: float) -> list[float]:
    """How much the memory of each process of serve grew, from the first third of its looks to the last third.

    The looks within `settle_s` of its start are left out. One number for each process, in order.
    """
    grown = []
    for part in segments(looks):
        used = [look.serve_mib for look in part if look.at_s >= part[0].at_s + settle_s]
        third = len(used) // 3
        grown.append(median(used[-third:]) - median(used[:third]) if third else 0.0)
    return grown


def segments(looks: Sequence[Look]) -> list[list[Look]]:
    """The looks at each process of serve, divided where it was down."""
    parts: list[list[Look]] = [[]]
    for look in looks:
        if look.serve_mib > 0:
            parts[-1].append(look)
        elif parts[-1]:
            parts.append([])
    return [part for part in parts if part]


def table(looks: Sequence[Look], ends: Sequence[tuple[float, str]]) -> str:
    """A line for each five minutes: versions, jobs, greatest ages, ends of runs, memory. `ends`: when, and how."""
    names = "minutes, versions, jobs, oldest tables (s), oldest reading (s), runs ended, serve (MiB), server (MiB)"
    head = f"| {names.replace(', ', ' | ')} |"
    lines = [head, "| --- " * 8 + "|"]
    last = int(looks[-1].at_s // MINUTE_S // BUCKET_MIN)
    changes = [after.at_s for before, after in pairwise(looks) if before.run_id != after.run_id]
    for bucket in range(last + 1):
        low, high = bucket * BUCKET_MIN * MINUTE_S, (bucket + 1) * BUCKET_MIN * MINUTE_S
        inside = [look for look in looks if low <= look.at_s < high]
        if inside:
            versions = sum(low <= at_s < high for at_s in changes)
            lines.append(_row(bucket, inside, versions, [how for at_s, how in ends if low <= at_s < high]))
    return "\n".join(lines) + "\n"


def _row(bucket: int, looks: Sequence[Look], versions: int, ends: Sequence[str]) -> str:
    ages = [look.table_age_s for look in looks if look.table_age_s is not None]
    readings = [look.data_age_s for look in looks if look.data_age_s is not None]
    down = "" if all(look.is_up for look in looks) else " (down for a part)"
    told = ", ".join(f"{ends.count(how)} {how}" for how in sorted(set(ends))) or "none"
    cells = [
        f"{bucket * BUCKET_MIN}-{(bucket + 1) * BUCKET_MIN}{down}", versions, f"{looks[-1].n_jobs:,}",
        _greatest(ages), _greatest(readings), told,
        f"{max(look.serve_mib for look in looks):.0f}", f"{max(look.server_mib for look in looks):.0f}",
    ]  # fmt: skip
    return "| " + " | ".join(map(str, cells)) + " |"


def _greatest(values: Sequence[float]) -> str:
    return f"{max(values):.0f}" if values else ""


def keep(looks: Sequence[Look], path: Path) -> None:
    """Write the looks, one JSON object a line."""
    path.write_text("".join(json.dumps(asdict(look)) + "\n" for look in looks))


def say(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
