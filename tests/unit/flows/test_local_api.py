"""The local Prefect API: when it is ours, what ends it, and what is said where it does not start."""

import os
from pathlib import Path

import pytest

from flows.prefect.local_api import is_configured, start_api
from tests.unit.flows.killed_runs import ends_with_its_run

RUN = """
import os, time
from flows.prefect.local_api import start_api
print(start_api(os.environ).process.pid, flush=True)
time.sleep(60)
"""


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="Linux only")
def test_the_api_ends_with_a_killed_run() -> None:
    assert ends_with_its_run(RUN)


def test_an_api_that_cannot_start_is_reported_at_once(tmp_path: Path) -> None:
    api = start_api({"PATH": os.environ["PATH"], "PYTHONHOME": str(tmp_path)})
    try:
        with pytest.raises(RuntimeError, match="the local Prefect API did not start"):
            api.wait(60.0)
    finally:
        api.stop()


@pytest.mark.parametrize(
    ("environment", "files", "expected"),
    [
        ({}, {}, False),
        ({"PREFECT_API_URL": "http://prefect.site/api"}, {}, True),
        ({"PREFECT_PROFILE": "cloud"}, {}, True),
        ({}, {"home/profiles.toml": "active = 'cloud'"}, True),
        ({}, {"prefect.toml": "[api]\nurl = 'http://prefect.site/api'"}, True),
        ({}, {"pyproject.toml": "[tool.prefect.api]\nurl = 'http://prefect.site/api'"}, True),
        ({}, {"pyproject.toml": "[tool.ruff]"}, False),
        ({}, {".env": "PREFECT_API_URL=http://prefect.site/api"}, True),
    ],
)
def test_prefect_finds_its_api_itself_where_the_user_configured_it(
    tmp_path: Path, environment: dict[str, str], files: dict[str, str], expected: bool
) -> None:
    (tmp_path / "home").mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert is_configured(environment | {"PREFECT_HOME": str(tmp_path / "home")}, tmp_path) is expected
