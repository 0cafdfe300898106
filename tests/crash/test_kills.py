"""Runs killed with -9 at random instants, among readers: one whole version at any time, and the same tables in the end.

Every seventh run is left alone. Half of the instants are drawn uniformly over the time that a run holds its lock: long
steps are hit more often than short ones, and start-up is not hit. The others are drawn within a stage that is drawn
first, so that short steps are hit too. The kills are divided among some stores, each with runs and readers of its own.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean
from typing import Any

from flows.services.doctor import diagnose
from pipeline.errors import InputError
from pipeline.publish import load_manifest
from pipeline.publish.store import holder_of, leftovers
from pipeline.run import STEPS
from tests.crash.conftest import KILLS, SEED, STORES
from tests.crash.nights import (
    ROOT,
    FlowRun,
    Night,
    PlainRun,
    Running,
    cpu_s_of,
    expected_version,
    last_stage,
    make_nights,
    stages_file,
    write_expected,
)

FLOW_SHARE = 0.7
"""Of the kills: of flows under a standing API; the others are plain runs."""

AIMED_SHARE = 0.5
"""Of the kills: at a stage that is drawn first."""

LEFT_ALONE = 7
_POLL_S = 0.01
STAGES = (*(step.name for step in STEPS), "publish")


@dataclass
class Kills:
    """The kills made so far: how many, of what, and where they hit."""

    folder: Path
    n_wanted: int
    seed: int
    rng: random.Random
    seconds: dict[type, list[float]] = field(default_factory=lambda: {PlainRun: [], FlowRun: []})
    """How long runs that were left alone held their lock."""

    counts: Counter[str] = field(default_factory=Counter)
    places: Counter[str] = field(default_factory=Counter)

    def disturb(self, kind: type, night: Night, store: Path) -> None:
        """Kill one run at a random instant after it has taken its lock; it may end before."""
        before, log = run_of(store), self.folder / "runs.log"
        stages_file(log).unlink(missing_ok=True)
        run = kind(night, store, log)
        wait_for_lock(run, store)
        if self.rng.random() < AIMED_SHARE:
            wait_for_stage(run, self.rng.choice(STAGES), log)
            time.sleep(self.rng.uniform(0, self.expected_s(kind) / len(STAGES)))
        else:
            time.sleep(self.rng.uniform(0, self.expected_s(kind)))
        if run.code() is None:
            os.kill(run.pid, signal.SIGKILL)
        if run.wait() == -signal.SIGKILL:
            self.counts[kind.__name__] += 1
            place = place_of(store, before, log)
            self.places[place] += 1
            sys.stdout.write(f"kill {self.n_killed} of {self.n_wanted}, seed {self.seed}: {kind.__name__}, {place}\n")
            sys.stdout.flush()
        else:
            self.counts["ended before its kill"] += 1

    def leave_alone(self, kind: type, night: Night, store: Path, *, timed: bool = True) -> None:
        """A run to its end, which has to succeed."""
        run = kind(night, store, self.folder / "runs.log")
        wait_for_lock(run, store)
        began = time.monotonic()
        assert run.wait() == 0, (self.folder / "runs.log").read_text()[-2000:]
        if timed:
            self.seconds[kind].append(time.monotonic() - began)

    def expected_s(self, kind: type) -> float:
        """The mean of the last runs of a kind; a flow takes about as long under either API."""
        times = self.seconds[kind] or self.seconds[FlowRun]
        return mean(times[-5:])

    def next_kind(self) -> type:
        """The kind whose kills are furthest behind their share."""
        n = self.n_killed + 1
        return FlowRun if self.counts["FlowRun"] < FLOW_SHARE * n else PlainRun

    @property
    def n_killed(self) -> int:
        return sum(self.counts[kind.__name__] for kind in self.seconds)


def wait_for_lock(run: Running, store: Path) -> None:
    """Return when the run holds the lock of the store, or has ended."""
    while run.code() is None:
        holder = holder_of(store / "work")
        if holder.pid == run.pid:
            return
        time.sleep(_POLL_S)


def wait_for_stage(run: Running, stage: str, log: Path) -> None:
    """Return when the forked run has begun the stage, or a later one, or has ended."""
    place = STAGES.index(stage)
    while run.code() is None:
        name, _ = last_stage(log)
        if name in STAGES and STAGES.index(name) >= place:
            return
        time.sleep(_POLL_S)


def run_of(store: Path) -> str:
    try:
        return load_manifest(store).run_id
    except InputError:
        return ""


def place_of(store: Path, run_before: str, log: Path) -> str:
    """Where a killed run was: by what it left, and by the stage that a forked run wrote into its file of stages."""
    if leftovers(store / "manifest.json") or leftovers(store / "versions"):
        return "publishing: writing the version"
    if run_of(store) != run_before:
        return "after its publication"
    stage, state = last_stage(log)
    if stage == "publish":
        return "publishing: checks" if state == "started" else "after its publication"
    if stage:
        return f"steps: {'in' if state == 'started' else 'after'} {stage}"
    return "before the first step"


@contextmanager
def reading(store: Path, expected: Path, folder: Path) -> Iterator[list[dict[str, Any]]]:
    """Readers of the store while the inside runs; their summaries are in the list afterwards."""
    stop, summaries = folder / "stop", []
    command = [sys.executable, "-m", "tests.crash.read_store"]
    readers = [
        subprocess.Popen([*command, library, store, expected, stop], cwd=ROOT, stdout=subprocess.PIPE, text=True)
        for library in ("pandas", "duckdb")
    ]
    try:
        yield summaries
    finally:
        stop.touch()
        for reader in readers:
            out, _ = reader.communicate(timeout=120)
            assert reader.returncode == 0
            summaries.append(json.loads(out))


def test_killed_runs_leave_one_whole_version_and_the_tables_of_an_undisturbed_run(
    tmp_path: Path, prefect_api: None
) -> None:
    began = time.monotonic()
    stores = [tmp_path / f"{n}" for n in range(STORES)]
    n_wanted = [len(range(n, KILLS, STORES)) for n in range(STORES)]
    with ThreadPoolExecutor(STORES) as threads:
        list(threads.map(kill_and_compare, stores, n_wanted, range(SEED, SEED + STORES)))
    sys.stdout.write(
        f"in all {KILLS} kills in {time.monotonic() - began:.0f} s and {cpu_s_of(os.getpid()):.0f} CPU-s\n"
    )


def kill_and_compare(tmp_path: Path, n_wanted: int, seed: int) -> None:
    """Kill so many runs of one store among readers, and compare what is left with undisturbed runs."""
    began = time.monotonic()
    tmp_path.mkdir()
    kills = Kills(tmp_path, n_wanted, seed, random.Random(seed))
    nights, store, versions = make_nights(tmp_path), tmp_path / "store", []
    for n, night in enumerate(nights):
        kills.leave_alone(PlainRun, night, tmp_path / f"alone-{n}", timed=n > 0)
        versions.append(expected_version(tmp_path / f"alone-{n}"))
    assert len({version["run_id"] for version in versions}) == len(nights)
    kills.leave_alone(FlowRun, nights[0], store)
    assert expected_version(store) == versions[0]
    expected, n_runs, n = write_expected(tmp_path / "expected.json", versions), 0, 0
    with reading(store, expected, tmp_path) as summaries:
        while kills.n_killed < n_wanted:
            n = kills.rng.randrange(len(nights)) if kills.rng.random() < 0.5 else n
            n_runs += 1
            if n_runs % LEFT_ALONE == 0:
                kind = FlowRun if n_runs % (2 * LEFT_ALONE) else PlainRun
                kills.leave_alone(kind, nights[n], store)
                assert expected_version(store) == versions[n]
            else:
                kills.disturb(kills.next_kind(), nights[n], store)
        for kind, last in ((FlowRun, 1), (PlainRun, 3)):
            kills.leave_alone(kind, nights[last], store)
            assert expected_version(store) == versions[last]
            time.sleep(1)
    say(kills, summaries, n_runs, time.monotonic() - began)
    assert [problem for summary in summaries for problem in summary["problems"]] == []
    assert all(summary["looks"] > n_wanted / 4 and summary["versions"] > 1 for summary in summaries)
    found = diagnose(store, int(time.time()), 3600)
    assert [one for one in found["findings"] if one["check"] != "space"] == []


def say(kills: Kills, summaries: list[dict[str, Any]], n_runs: int, seconds: float) -> None:
    n_inside = sum(n for place, n in kills.places.items() if place.startswith("steps"))
    times = ", ".join(f"{kind.__name__} {mean(taken):.1f}" for kind, taken in kills.seconds.items() if taken)
    sys.stdout.write(
        f"\n{kills.n_killed} kills of {n_runs} runs in {seconds:.0f} s, seed {kills.seed}: {dict(kills.counts)}\n"
        f"seconds of a run left alone: {times}\n"
        f"inside the steps: {n_inside}\n"
    )
    sys.stdout.writelines(f"  {n:4d}  {place}\n" for place, n in sorted(kills.places.items()))
    sys.stdout.writelines(f"reader {summary}\n" for summary in summaries)
