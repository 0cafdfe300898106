"""Functions that only kernels call are linked and never made machine code; what kernels and Python see is unchanged."""

import numpy as np
import pytest
from numba.core.caching import NullCache

from pipeline.kernel_compiler import LinkedLibrary
from pipeline.kernels import called_kernel, compiled, entry_kernel, interpreted, kernel


@kernel
def _inlined(values: np.ndarray, by: int) -> float:
    return float(values[0]) / by


@called_kernel
def _called(values: np.ndarray, by: int) -> float:
    return float(values.sum()) * by


@entry_kernel
def _entry(values: np.ndarray, by: int) -> float:
    return _inlined(values, by) + _inlined(values, 2) + _called(values, 3)


@entry_kernel
def _assign(values: np.ndarray, others: np.ndarray) -> None:
    values[:] = others


def test_an_entry_kernel_links_what_it_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    # A kernel from the cache compiles nothing.
    monkeypatch.setattr(compiled(_entry), "_cache", NullCache())
    values = np.array([1.0, 2.0])
    assert _entry(values, 4) == 0.25 + 0.5 + 9.0
    for inner in (_inlined, _called):
        (made,) = compiled(inner).overloads.values()  # one, of whatever constants it is called with
        assert isinstance(made._asdict()["library"], LinkedLibrary)


def test_interpreted_kernels_give_what_compiled_ones_give() -> None:
    values = np.array([1.0, 2.0])
    assert _entry(values, 4) == 9.75
    with interpreted():
        assert [_entry(values, 4), _inlined(values, 2), _called(values, 2)] == [9.75, 0.5, 6.0]


def test_slices_of_different_lengths_are_refused() -> None:
    _assign(values := np.zeros(2), np.ones(2))
    assert values.tolist() == [1.0, 1.0]
    with pytest.raises(ValueError, match="another shape"):
        _assign(np.zeros(2), np.ones(3))
