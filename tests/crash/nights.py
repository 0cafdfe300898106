"""A few nights of a small log, each with a site name of its own, and processes that run them."""

import importlib
import json
import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest

from pipeline.publish import Manifest, load_manifest

ROOT = Path(__file__).resolve().parents[2]
LOG = ROOT / "data_samples" / "traps.swf"
N_NIGHTS = 4
KEEP_VERSIONS = 2
"""The least: versions disappear soon after they were replaced, which is the hardest case for readers."""

# Imports and compiled kernels take longer than the steps of so small a log: they are loaded once.
FORK = multiprocessing.get_context("forkserver")
FORK.set_forkserver_preload(["tests.crash.preloaded"])

# The start of a process asks for the exit codes of all others, and a code can be read by one thread only.
STARTING_OR_ASKING = threading.Lock()


@dataclass(frozen=True)
class Night:
    """One night's config, its site's name and its log."""

    site: str
    config: Path


def make_nights(folder: Path) -> list[Night]:
    """Configs over the first lines of the log, more of them every night."""
    lines = LOG.read_bytes().splitlines(keepends=True)
    nights = []
    for n in range(N_NIGHTS):
        log, config = folder / f"night-{n}.swf", folder / f"night-{n}.toml"
        log.write_bytes(b"".join(lines[: len(lines) - 6 * (N_NIGHTS - 1 - n)]))
        text = f"logs = ['{log}']\n[site]\nname = 'night-{n}'\n[publish]\nkeep_versions = {KEEP_VERSIONS}\n"
        config.write_text(text)
        nights.append(Night(f"night-{n}", config))
    return nights


class Running(Protocol):
    """A run in a process of its own."""

    pid: int

    def code(self) -> int | None:
        """Its exit code, negative after a signal; None while it runs."""

    def wait(self) -> int:
        """The same, after its end."""


class PlainRun:
    """`walltime run --plain` in a process forked from one that has imported it."""

    options = ("--plain",)

    def __init__(self, night: Night, store: Path, log: Path) -> None:
        arguments = ["run", str(night.config), "--out", str(store), "--quiet", *self.options]
        self._process = FORK.Process(target=_call, args=(arguments, str(log)))
        with STARTING_OR_ASKING:
            self._process.start()
        assert self._process.pid is not None
        self.pid: int = self._process.pid

    def code(self) -> int | None:
        with STARTING_OR_ASKING:
            return self._process.exitcode

    def wait(self) -> int:
        ends = time.monotonic() + 600
        while (code := self.code()) is None:
            assert time.monotonic() < ends, "a run takes longer than ten minutes"
            time.sleep(0.01)
        return code


class FlowRun(PlainRun):
    """`walltime run`, the Prefect flow, forked in the same way, with the standing API of `standing_api`."""

    options = ()


def cpu_s_of(pid: int) -> float:
    """The CPU-seconds of a process, of the children that it has waited for, and of its living descendants."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    own = sum(map(int, words[11:15])) / os.sysconf("SC_CLK_TCK")
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return own + sum(cpu_s_of(int(child)) for task in tasks for child in task.read_text().split())


@contextmanager
def standing_api(folder: Path) -> Iterator[None]:
    """One Prefect API for all runs inside, its database in `folder`; killed runs leave their state in it.

    Enter it before the first run: forked runs have the environment of the first one's beginning.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PREFECT_HOME", str(folder))
        patch.setenv("PREFECT_LOGGING_LEVEL", "CRITICAL")
        importlib.import_module("flows.prefect")  # its defaults come before Prefect
        from prefect.server.api.server import SubprocessASGIServer

        with SubprocessASGIServer() as server:
            patch.setenv("PREFECT_API_URL", server.api_url)
            yield


def _call(arguments: list[str], log: str) -> None:
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    sys.argv = ["walltime", *arguments]
    from flows.cli import main
    from flows.services.progress import listening

    stages = os.open(stages_file(Path(log)), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
    with listening(lambda event: os.write(stages, f"{event.stage} {event.state}\n".encode())):
        main()


def stages_file(log: Path) -> Path:
    """Where a forked run writes the beginning and the end of each of its stages."""
    return log.with_suffix(".stages")


def last_stage(log: Path) -> tuple[str, str]:
    """The latest stage of a forked run and its state; two empty texts where it has not come to its first one."""
    path = stages_file(log)
    lines = path.read_text().splitlines() if path.exists() else []
    stage, _, state = lines[-1].partition(" ") if lines else ("", "", "")
    return stage, state


def tables_of(manifest: Manifest) -> dict[str, Any]:
    """Hash and rows of each table of a version, by name."""
    return {name: {"sha256": entry.sha256, "rows": entry.rows} for name, entry in manifest.tables.items()}


def expected_version(store: Path) -> dict[str, Any]:
    """What readers must see of the version that an undisturbed run has published."""
    manifest = load_manifest(store)
    return {"run_id": manifest.run_id, "site": manifest.site, "tables": tables_of(manifest)}


def write_expected(path: Path, versions: list[dict[str, Any]]) -> Path:
    """Write the expected versions for the readers, by the id of the run."""
    path.write_text(json.dumps({version["run_id"]: version for version in versions}))
    return path
