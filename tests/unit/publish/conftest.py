"""What the tests of versions share."""

from pathlib import Path

import pytest

from tests.unit.publish.numbered_versions import Clock


@pytest.fixture
def clock(tmp_path: Path) -> Clock:
    return Clock(tmp_path)
