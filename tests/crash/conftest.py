"""Runs killed at random instants, for `make test-crash` alone: `make test` does not collect this folder."""

import os
from collections.abc import Iterator

import pytest

SWITCH = "WALLTIME_TEST_CRASH"
collect_ignore_glob = [] if os.environ.get(SWITCH) else ["*"]
KILLS = int(os.environ.get("WALLTIME_CRASH_KILLS", "200"))
STORES = int(os.environ.get("WALLTIME_CRASH_STORES", "2"))
"""The kills are divided among so many stores, whose runs are killed beside one another."""

SEED = int(os.environ.get("WALLTIME_CRASH_SEED", "15"))


@pytest.fixture(scope="session")
def prefect_api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The one Prefect API of all flows; each test that forks runs asks for it, so that it is there before the first."""
    from tests.crash.nights import standing_api

    with standing_api(tmp_path_factory.mktemp("prefect")):
        yield
