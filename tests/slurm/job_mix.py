"""A submitter that keeps jobs flowing into a real Slurm: several users, sizes and applications, some of which fail."""

import random
import subprocess
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.slurm.commands import submit


@dataclass(frozen=True)
class Application:
    """What a user submits: a name with a number, processor counts, the time asked for, and seconds on one processor."""

    user: str
    name: str
    procs: tuple[int, ...]
    minutes: int
    seconds: tuple[float, float]
    end: str = ""
    options: tuple[str, ...] = ()
    weight: float = 1.0

    def seconds_on(self, procs: int, rng: random.Random) -> float:
        """A runtime that falls with the processors, down to a second."""
        return 1.0 + rng.uniform(*self.seconds) / procs


MIX = (
    Application("alice", "relax_{}.sh", (1, 2, 4, 8), 20, (20.0, 24.0), weight=4),
    Application("bob", "sweep-{}", (1, 2), 60, (4.0, 6.0), weight=4),
    Application("carol", "post_{}", (1,), 10, (0.0, 14.0), weight=3),
    Application("carol", "fields_{}", (1,), 10, (2.0, 4.0), options=("--array=0-3",)),
    Application("dave", "unstable_{}", (2,), 5, (2.0, 8.0), end="; exit 3"),
    Application("dave", "endless_{}", (1,), 1, (100.0, 100.0), weight=0.3),
)


@dataclass
class Submitter:
    """Submits a job of the mix every few seconds from a thread of its own, until it is told to stop."""

    environment: Mapping[str, str]
    pause_s: float
    rng: random.Random
    n_submitted: int = 0
    n_refused: int = 0
    """Submissions that Slurm did not take, as while it is down."""

    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(self.rng.expovariate(1.0 / self.pause_s)):
            try:
                self.submit_one()
                self.n_submitted += 1
            except (AssertionError, subprocess.SubprocessError):
                self.n_refused += 1

    def submit_one(self) -> None:
        (one,) = self.rng.choices(MIX, [application.weight for application in MIX])
        procs = self.rng.choice(one.procs)
        submit(
            self.environment,
            f"--job-name={one.name.format(self.rng.randrange(100))}", f"-n{procs}", f"-t{one.minutes}", *one.options,
            script=f"sleep {one.seconds_on(procs, self.rng):.1f}{one.end}", user=one.user,
        )  # fmt: skip
