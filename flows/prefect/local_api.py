"""Starts a local Prefect API of our own before Prefect is imported, so that both load at the same time.

Prefect can start such an API itself, but then the run imports the whole server too (1.7 CPU-s), and waits for it.
Prefect's own way remains where the user has configured Prefect, or where Prefect is imported already.
"""

import atexit
import http.client
import socket
import subprocess  # nosec B404 # lists of arguments, no shell
import sys
from collections.abc import Mapping, MutableMapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from flows.prefect.settings import prefect_home

API_URL = "PREFECT_API_URL"
_TIMEOUT = "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS"
_STOP_S = 5.0
_CONFIGURED = (
    API_URL, "PREFECT_API_KEY", "PREFECT_PROFILE", "PREFECT_PROFILES_PATH", "PREFECT_SERVER_EPHEMERAL_ENABLED",
    "PREFECT_SERVER_ALLOW_EPHEMERAL_MODE", "PREFECT_API_AUTH_STRING", "PREFECT_SERVER_API_AUTH_STRING",
    "PREFECT_SERVER_API_BASE_PATH",
)  # fmt: skip
"""Environment variables that say which API to use, or how to reach it."""

_CONFIG_FILES = {"prefect.toml": b"", "pyproject.toml": b"[tool.prefect", ".env": b"PREFECT_"}
"""Files of the current folder that configure Prefect where they contain these bytes."""

_SERVER_ENVIRONMENT = {
    "PREFECT_UI_ENABLED": "0",
    "PREFECT__SERVER_EPHEMERAL": "1",
    "PREFECT__SERVER_FINAL": "1",
    "PREFECT_API_BLOCKS_REGISTER_ON_START": "false",
}


@dataclass(frozen=True, slots=True)
class LocalApi:
    """A local API in a process of its own, and its port."""

    process: "subprocess.Popen[bytes]"
    port: int

    @property
    def url(self) -> str:
        """What PREFECT_API_URL has to be."""
        return f"http://127.0.0.1:{self.port}/api"

    def wait(self, timeout_s: float) -> None:
        """Return when the API answers; RuntimeError where it ends instead, or does not answer in time."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout_s)
        try:
            # The socket listens from the start: the request waits in its queue until the API is there.
            connection.request("GET", "/api/health")
            status = connection.getresponse().status
        except (OSError, http.client.HTTPException) as error:
            raise self._failure(type(error).__name__) from error
        finally:
            connection.close()
        if status != http.client.OK:
            raise self._failure(f"status {status}")

    def stop(self) -> None:
        """End the process, by force where it does not end in time."""
        self.process.terminate()
        try:
            self.process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.process.stdin is not None:
            with suppress(OSError):
                self.process.stdin.close()

    def _failure(self, found: str) -> RuntimeError:
        code = self.process.poll()
        ended = "" if code is None else f", its process ended with code {code}"
        return RuntimeError(f"the local Prefect API did not start ({found}{ended})")


def begin_local_api(environment: MutableMapping[str, str], folder: Path) -> LocalApi | None:
    """A local API that is starting, which PREFECT_API_URL names from now on; None where Prefect finds its own.

    It stops at exit, after Prefect has sent its last events. `environment` and the current `folder` tell whether the
    user has configured Prefect.
    """
    if "prefect" in sys.modules or is_configured(environment, folder):
        return None
    api = start_api(environment)
    atexit.register(api.stop)
    environment[API_URL] = api.url
    return api


def is_configured(environment: Mapping[str, str], folder: Path) -> bool:
    """Whether the user says which API Prefect should use: by the environment, a profile, or a file of `folder`."""
    if any(name in environment for name in _CONFIGURED):
        return True
    home = prefect_home(environment)
    has_profiles = home is not None and (home / "profiles.toml").exists()
    return has_profiles or any(_contains(folder / name, text) for name, text in _CONFIG_FILES.items())


def start_api(environment: Mapping[str, str]) -> LocalApi:
    """Start the process of a local API; it ends with this process, however this one ends.

    A Ctrl-C in the terminal does not reach it: the run can still report its end.
    """
    with socket.create_server(("127.0.0.1", 0)) as listening:
        number = listening.fileno()
        process = subprocess.Popen(  # noqa: S603 # nosec B603 # constant arguments
            [sys.executable, "-P", str(Path(__file__).with_name("api_process.py")), str(number)],
            stdin=subprocess.PIPE,
            pass_fds=(number,),
            start_new_session=True,
            env=_SERVER_ENVIRONMENT | dict(environment),
        )
        return LocalApi(process, listening.getsockname()[1])


def startup_timeout_s(environment: Mapping[str, str]) -> float:
    """How long to wait for the API, in seconds."""
    return float(environment[_TIMEOUT])


def _contains(path: Path, text: bytes) -> bool:
    try:
        return text in path.read_bytes()
    except OSError:
        return False
