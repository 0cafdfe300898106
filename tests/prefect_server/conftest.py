"""A standing Prefect server on SQLite and on PostgreSQL, for `make test-server` alone: `make test` passes it by."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest

SWITCH = "WALLTIME_TEST_SERVER"
collect_ignore_glob = [] if os.environ.get(SWITCH) else ["*"]

ROOT = Path(__file__).resolve().parents[2]
PREFECT = Path(sys.executable).parent / "prefect"
START_S = 180.0
BUSY_TRIES = 20
BUSY = 503
T = TypeVar("T")


@contextmanager
def suppress_busy() -> Iterator[None]:
    """Go on after an answer that the server is busy."""
    try:
        yield
    except urllib.error.HTTPError as error:
        if error.code != BUSY:
            raise


@dataclass(frozen=True)
class Server:
    """A running server: its address, and the environment of its clients."""

    address: str
    environment: dict[str, str]
    folder: Path
    pid: int = 0

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """The server and its children do not answer in this context."""
        os.killpg(self.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.killpg(self.pid, signal.SIGCONT)

    def ask(self, path: str, **body: Any) -> Any:
        """The answer of the API to a POST."""
        request = urllib.request.Request(
            f"{self.address}/api{path}", json.dumps(body).encode(), {"content-type": "application/json"}
        )
        for _ in range(BUSY_TRIES):
            # Prefect answers 503 while SQLite is locked; its own clients ask again too.
            with suppress_busy(), urllib.request.urlopen(request, timeout=60) as answer:
                text = answer.read()
                return json.loads(text) if text.strip() else None
            time.sleep(2.0)
        raise AssertionError(f"{path}: the server was busy {BUSY_TRIES} times")

    def runs(self, deployment: str) -> list[dict[str, Any]]:
        """The deployment's flow runs, the earliest first."""
        named = {"name": {"any_": [deployment]}}
        return self.ask("/flow_runs/filter", deployments=named, sort="EXPECTED_START_TIME_ASC", limit=200)

    def deployment(self, name: str) -> dict[str, Any]:
        """What the server knows of a deployment."""
        (found,) = self.ask("/deployments/filter", deployments={"name": {"any_": [name]}})
        return found

    def start_run(self, deployment: str, **parameters: str) -> str:
        """Ask for a run now; its id."""
        path = f"/deployments/{self.deployment(deployment)['id']}/create_flow_run"
        return str(self.ask(path, parameters=parameters)["id"])

    def state(self, run_id: str) -> tuple[str, str]:
        """A run's state and its message."""
        (run,) = self.ask("/flow_runs/filter", flow_runs={"id": {"any_": [run_id]}})
        return run["state_name"], run["state"]["message"] or ""

    def logs(self, run_id: str) -> str:
        """All that a run has logged."""
        found = self.ask("/logs/filter", logs={"flow_run_id": {"any_": [run_id]}}, limit=200)
        return "\n".join(line["message"] for line in found)

    def artifacts(self, run_id: str) -> dict[str, str]:
        """A run's artifacts by key."""
        found = self.ask("/artifacts/filter", flow_runs={"id": {"any_": [run_id]}}, limit=200)
        return {artifact["key"]: artifact["data"] for artifact in found}


def wait_for(what: str, ask: Callable[[], T], seconds: float = 240.0) -> T:
    """What `ask` gives as soon as it is true."""
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        if found := ask():
            return found
        time.sleep(1.0)
    raise AssertionError(f"{what}: not within {seconds:.0f} s")


@contextmanager
def process(
    command: list[str], log: Path, environment: dict[str, str], folder: Path
) -> Iterator["subprocess.Popen[bytes]"]:
    """A process of its own group, which is ended with all its children."""
    with log.open("ab") as out:
        started = subprocess.Popen(
            command,
            stdout=out,
            stderr=out,
            stdin=subprocess.DEVNULL,
            env=environment,
            cwd=folder,
            start_new_session=True,
        )
    try:
        yield started
    finally:
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(started.pid, number)
            with suppress(subprocess.TimeoutExpired):
                started.wait(15)
                if number == signal.SIGTERM:
                    time.sleep(1)


@contextmanager
def postgres(folder: Path) -> Iterator[str]:
    """The address of a PostgreSQL of our own, its files below `folder`; skipped where it is not installed."""
    programs = max(Path("/usr/lib/postgresql").glob("*/bin"), default=None)
    if programs is None:
        pytest.skip("no PostgreSQL (Debian: apt-get install postgresql): the server is not tested with it")
    as_user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    folder.mkdir(parents=True)
    if as_user:
        shutil.chown(folder, "postgres")
    port, data = free_port(), folder / "data"
    call = lambda *words: subprocess.run(  # noqa: E731
        [*as_user, *map(str, words)], check=True, capture_output=True, cwd=folder
    )
    call(programs / "initdb", "-D", data, "-U", "prefect", "-A", "trust", "-E", "UTF8", "--no-sync")
    options = f"-p {port} -k {folder} -c listen_addresses=127.0.0.1 -c fsync=off"
    subprocess.run(
        [*as_user, str(programs / "pg_ctl"), "-D", str(data), "-w", "-l", str(folder / "log"), "-o", options, "start"],
        check=True, stdout=subprocess.DEVNULL, cwd=folder,
    )  # fmt: skip
    try:
        yield f"postgresql+asyncpg://prefect@127.0.0.1:{port}/postgres"
    finally:
        call(programs / "pg_ctl", "-D", data, "-m", "immediate", "stop")


def free_port() -> int:
    """A port that nothing listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


@contextmanager
def database(kind: str, folder: Path) -> Iterator[dict[str, str]]:
    """The variables that name a server's database."""
    if kind == "sqlite":
        yield {}
        return
    with postgres(folder / "postgres") as address:
        yield {"PREFECT_API_DATABASE_CONNECTION_URL": address}


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A standing server."""
    # Short, and not pytest's own folder, which belongs to root alone.
    folder = Path(tempfile.mkdtemp(prefix="walltime-server-"))
    folder.chmod(0o755)
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    common = clean | {
        "PREFECT_HOME": str(folder / "home"),
        "PREFECT_API_URL": f"{address}/api",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "DO_NOT_TRACK": "1",
        "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [clean.get("PYTHONPATH")])]),
    }
    try:
        with database(request.param, folder) as where:
            own = common | where | {"PREFECT_UI_API_URL": f"{address}/api"}
            command = [str(PREFECT), "server", "start", "--port", str(port)]
            with process(command, folder / "server.log", own, folder) as standing:
                wait_for("the server", lambda: answers(address), START_S)
                yield Server(address, common, folder, standing.pid)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def answers(address: str) -> bool:
    """Whether the API is there."""
    try:
        with urllib.request.urlopen(f"{address}/api/health", timeout=5) as answer:
            return answer.read() == b"true"
    except (OSError, urllib.error.URLError):
        return False
