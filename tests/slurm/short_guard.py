"""`walltime guard` with the rules of a trial in minutes, and a clock that may be wrong.

python -m tests.slurm.short_guard CONFIG CLOCK

CLOCK is a file with the seconds that this process's clock is ahead; without the file it is right.
"""

import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import flows.services.guard as services
from flows.cli import main
from pipeline.limits.soft import SoftRules

RULES = SoftRules(margin_s=60.0, least_saved_s=60.0, increments_s=(60.0, 120.0, 300.0, 600.0), round_s=5.0)
"""Slurm's limits are whole minutes, so that the margin and the first increment are the least possible ones."""


def ahead_s(clock: Path) -> float:
    with suppress(OSError, ValueError):
        return float(clock.read_text())
    return 0.0


def guard(config: str, clock: Path) -> None:
    """What the command does, with these rules."""

    class Short(services.Guard):
        def __post_init__(self) -> None:
            self.rules = RULES
            super().__post_init__()

        def run_round(self, now_s: float) -> dict[str, Any]:
            return super().run_round(now_s + ahead_s(clock))

    services.Guard = Short  # type: ignore[misc]
    sys.argv = ["walltime", "guard", config, "--json"]
    main()


if __name__ == "__main__":
    guard(sys.argv[1], Path(sys.argv[2]))
