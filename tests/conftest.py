"""Hypothesis gives the same examples in every `make test`; `make fuzz` asks for fresh ones.

An example that fails under `make fuzz` is printed with the code to repeat it, and is kept as a test with a name.
"""

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

settings.register_profile("fixed", derandomize=True, database=None, deadline=None, print_blob=True)
settings.register_profile("fresh", derandomize=False, database=None, deadline=None, print_blob=True)
settings.load_profile(os.environ.get("WALLTIME_EXAMPLES", "fixed"))


@pytest.fixture(scope="session", autouse=True)
def compiled_kernels() -> Iterator[None]:
    """Series of few rows are fitted by the compiled kernels, which set-up has made; one test interprets them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pipeline.kernels.FEW_ROWS", 0)
        yield
