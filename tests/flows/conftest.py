"""One embedded Prefect API for all flow tests, its home in a temporary folder; small logs; the command in-process."""

import importlib
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.flows.support import SAMPLES, Outcome

_HOME = tempfile.TemporaryDirectory(prefix="walltime-prefect-", ignore_cleanup_errors=True)
os.environ["PREFECT_HOME"] = _HOME.name
os.environ["PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL"] = "CRITICAL"
for _name in ("PREFECT_API_URL", "PREFECT_API_KEY", "PREFECT_PROFILE"):
    os.environ.pop(_name, None)


@pytest.fixture(scope="session")
def prefect() -> Iterator[None]:
    """Prefect's own test harness: a temporary database behind an embedded API."""
    importlib.import_module("flows.prefect")  # its defaults come before Prefect
    from prefect.testing.utilities import prefect_test_harness

    with prefect_test_harness(server_startup_timeout=180):
        yield


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A config beside the small log with every trap."""
    path = tmp_path / "site.toml"
    text = f"logs = ['{SAMPLES / 'traps.swf'}']\noutput_dir = '{tmp_path / 'out'}'\n[site]\nname = 'oxbow'\n"
    path.write_text(text)
    return path


@pytest.fixture
def walltime(capfd: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """Call the command in this process."""
    from flows.cli import main

    def call(*arguments: object) -> Outcome:
        capfd.readouterr()
        with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as ending:
            patch.setattr("sys.argv", ["walltime", *map(str, arguments)])
            main()
        shown = capfd.readouterr()
        code = ending.value.code
        return Outcome(code if isinstance(code, int) else int(code is not None), shown.out, shown.err)

    return call
