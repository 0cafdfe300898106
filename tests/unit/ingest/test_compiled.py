"""Kernels on disk: found again while nothing changed, compiled anew when a file that they call into did."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.kernels import entry_kernel as kernel

ROOT = Path(__file__).parents[3]
INNER = "{decorator}@kernel\ndef step(n: int) -> int:\n    return n + {by}\n"
ENTRY = "{decorator}from inner import step\n@kernel\ndef go(n: int) -> int:\n    return step(n)\n"


def ran(folder: Path) -> str:
    """What a fresh process finds: the entry's answer for 1, and how many kernels it took from disk."""
    hits = "sum(compiled(go).stats.cache_hits.values())"
    script = f"from entry import go; from pipeline.kernels import compiled; print(go(1), {hits})"
    # Bytecode is told apart by size and second only; numba's own files lie beside it all the same.
    found = {"PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)]), "PYTHONDONTWRITEBYTECODE": "1"}
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"} | found
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.slow
@pytest.mark.parametrize(
    "decorator",
    [
        "from pipeline.kernels import entry_kernel as kernel\n",
        "from pipeline.kernels import uncounted_kernel as kernel\n",
    ],
)
def test_editing_a_called_file_renews_the_kernel_that_calls_it(tmp_path: Path, decorator: str) -> None:
    inner, entry = tmp_path / "inner.py", tmp_path / "entry.py"
    entry.write_text(ENTRY.format(decorator=decorator))
    inner.write_text(INNER.format(decorator=decorator, by=1))
    assert [ran(tmp_path), ran(tmp_path)] == ["2 0", "2 1"]
    inner.write_text(INNER.format(decorator=decorator, by=2))
    assert ran(tmp_path) == "3 0"


def test_editing_what_a_kernel_does_not_read_keeps_it(tmp_path: Path) -> None:
    decorator = "from pipeline.kernels import entry_kernel as kernel\n"
    (tmp_path / "inner.py").write_text(INNER.format(decorator=decorator, by=1))
    (tmp_path / "entry.py").write_text(ENTRY.format(decorator=decorator))
    beside = tmp_path / "beside.py"
    beside.write_text("# another file of the folder\n")
    assert ran(tmp_path) == "2 0"
    beside.write_text("# changed\n")
    assert ran(tmp_path) == "2 1"


@pytest.mark.parametrize(("constant", "read"), [("N = {}", "N"), ("import numpy as np\nN = np.array([{}])", "N[0]")])
def test_a_constant_from_a_file_without_kernels_renews_the_kernel(tmp_path: Path, constant: str, read: str) -> None:
    imports = "from pipeline.kernels import entry_kernel as kernel\nfrom sizes import N\n"
    (tmp_path / "entry.py").write_text(imports + f"@kernel\ndef go(n: int) -> int:\n    return n + {read}\n")
    sizes = tmp_path / "sizes.py"
    sizes.write_text(constant.format(1))
    assert [ran(tmp_path), ran(tmp_path)] == ["2 0", "2 1"]
    sizes.write_text(constant.format(2))
    assert ran(tmp_path) == "3 0"


def test_without_a_folder_to_cache_in_a_kernel_still_runs() -> None:
    names: dict[str, object] = {}
    exec("def double(n):\n    return 2 * n\n", names)
    assert kernel(names["double"])(2) == 4  # type: ignore[type-var,operator]
