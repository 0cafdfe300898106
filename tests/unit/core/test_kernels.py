"""Kernels: compiled or interpreted they give the same; their own sort; one cache for several processes."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pipeline.kernels import called_kernel, entry_kernel, interpreted, kernel, place_in, sort_in_place

ROOT = Path(__file__).parents[3]
DECORATORS = {"kernel", "called_kernel", "entry_kernel", "uncounted_kernel"}
GENERATED = {
    "sort", "argsort", "sorted", "median", "nanmedian", "quantile", "nanquantile", "percentile", "nanpercentile",
    "partition", "argpartition", "searchsorted", "unique", "digitize", "interp",
}  # fmt: skip
"""What numba makes of one template in several forms, all with one name."""


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
def _sort(values: np.ndarray, carried: np.ndarray) -> None:
    sort_in_place(values, carried)


@entry_kernel
def _place(ordered: np.ndarray, value: float, after_equal: bool) -> int:
    return place_in(ordered, value, after_equal)


def test_interpreted_kernels_give_what_compiled_ones_give() -> None:
    values = np.array([1.0, 2.0])
    assert _entry(values, 4) == 9.75
    with interpreted():
        assert [_entry(values, 4), _inlined(values, 2), _called(values, 2)] == [9.75, 0.5, 6.0]


@pytest.mark.parametrize("n", [0, 1, 2, 7, 1_000, 200_000])
def test_the_sort_orders_numbers_and_what_they_carry(n: int) -> None:
    random = np.random.default_rng(n)
    for values in (random.normal(size=n), random.integers(0, 9, n).astype(float), -np.arange(float(n))):
        ordered, carried = values.copy(), np.arange(n)
        _sort(ordered, carried)
        assert np.array_equal(ordered, np.sort(values))
        assert np.array_equal(values[carried], ordered) and np.array_equal(np.sort(carried), np.arange(n))
        alone = values.copy()
        _sort(alone, alone)
        assert np.array_equal(alone, ordered)


def test_a_place_is_that_of_numpy() -> None:
    ordered = np.array([1.0, 2.0, 2.0, 5.0])
    for value in (0.0, 1.0, 2.0, 3.0, 5.0, 9.0):
        assert _place(ordered, value, False) == np.searchsorted(ordered, value)
        assert _place(ordered, value, True) == np.searchsorted(ordered, value, side="right")


def kernels_of(path: Path) -> list[ast.FunctionDef]:
    """The functions of a file that are kernels by a decorator, under whatever name it is imported."""
    tree, names = ast.parse(path.read_text(encoding="utf-8")), {"njit"}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "pipeline.kernels":
            names |= {name.asname or name.name for name in node.names if name.name in DECORATORS}
    names |= DECORATORS if path.name == "kernels.py" else set()
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return [one for one in functions if any(names & set(ast.unparse(d).split("(")) for d in one.decorator_list)]


def test_no_kernel_calls_a_sort_of_numba() -> None:
    """Two processes that compile into one cache give two such functions one name, and the wrong one is linked."""
    found, n_kernels = [], 0
    for path in sorted(path for room in ("pipeline", "benchmarks", "tools") for path in (ROOT / room).rglob("*.py")):
        for function in kernels_of(path):
            n_kernels += 1
            calls = [node.func for node in ast.walk(function) if isinstance(node, ast.Call)]
            called = {call.attr if isinstance(call, ast.Attribute) else getattr(call, "id", "") for call in calls}
            found += [f"{path.name}: {function.name} calls {name}" for name in sorted(called & GENERATED)]
    assert not found
    assert n_kernels > 120


SORTS = {
    "estimate": """
from pipeline.estimate.answer import _weighted_median, sort_numbers
values = np.array([3.0, 1.0, 2.0])
assert _weighted_median(values, np.array([1.0, 1.0, 5.0]), np.empty(3)) == 2.0
sort_numbers(values)
assert values.tolist() == [1, 2, 3]
""",
    "baselines": """
from tests.unit.estimate.test_baselines import test_quantiles_of_the_last_fifty_and_of_everybody as test
test()
""",
}


@pytest.mark.slow
@pytest.mark.parametrize("order", [("baselines", "estimate"), ("estimate", "baselines")])
def test_processes_that_compile_into_one_cache_agree(tmp_path: Path, order: tuple[str, ...]) -> None:
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    whole = "\n".join(SORTS[name] for name in order)
    for script in (*(SORTS[name] for name in order), whole):
        (tmp_path / "script.py").write_text(f"import numpy as np\n{script}")
        done = subprocess.run(
            [sys.executable, str(tmp_path / "script.py")], env=environment, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")
    assert list(tmp_path.rglob("*.nbc"))
