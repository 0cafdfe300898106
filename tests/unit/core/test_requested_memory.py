"""Memory as typed: the largest unit that holds it whole, and what it is per."""

import numpy as np
import pytest

from pipeline.ingest.values import JOB, NODE, PROCESSOR, memory_text, requested_memory


@pytest.mark.parametrize(
    ("kib", "per", "text"),
    [
        (2.0**21, NODE, "2GiB/node"), (1_024_000.0, PROCESSOR, "1000MiB/processor"), (1.5, JOB, "1.5KiB/job"),
        (0.0, NODE, "0KiB/node"), (2.0**40, JOB, "1024TiB/job"),
    ],
)  # fmt: skip
def test_amounts_read_as_typed(kib: float, per: int, text: str) -> None:
    assert memory_text(kib, per) == text


def test_unknown_amounts_are_null() -> None:
    found = requested_memory(np.array([1024.0, np.nan, 1024.0]), np.array([NODE, NODE, JOB], np.int8))
    assert found.to_pylist() == ["1MiB/node", None, "1MiB/job"]
    assert requested_memory(np.empty(0), np.empty(0, np.int8)).to_pylist() == []
