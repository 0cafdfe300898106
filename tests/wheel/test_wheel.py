"""The wheel: everything under `walltime/`, installed in a clean environment, without a download."""

import os
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
KEEP = ("PATH", "HOME", "LANG", "TMPDIR", "NUMBA_CACHE_DIR")


def call(words: Sequence[object], cwd: Path, **more: str) -> str:
    environment = {name: os.environ[name] for name in KEEP if name in os.environ} | more
    done = subprocess.run(list(map(str, words)), cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    quiet = ("--quiet", "--disable-pip-version-check", "--no-deps", "--no-index", "--no-build-isolation")
    call([sys.executable, "-m", "pip", "wheel", *quiet, "--wheel-dir", folder, ROOT], folder)
    (found,) = folder.glob("walltime-*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of programs of an environment with the wheel; the dependencies are those of this environment."""
    home = tmp_path_factory.mktemp("clean")
    call([sys.executable, "-m", "venv", "--without-pip", home / "venv"], home)
    python = home / "venv" / "bin" / "python"
    site = Path(call([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], home).strip())
    # Without the .pth files of that folder: an editable Walltime there stays out.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    quiet = ("--quiet", "--disable-pip-version-check", "--no-deps", "--no-index")
    call([sys.executable, "-m", "pip", "--python", python, "install", *quiet, "--ignore-installed", wheel], home)
    return python.parent


def test_an_editable_installation_reads_the_source_tree(tmp_path: Path) -> None:
    call([sys.executable, "-c", "import sys, hatchling.build as b; b.build_editable(sys.argv[1])", tmp_path], ROOT)
    with zipfile.ZipFile(*tmp_path.glob("*.whl")) as archive:
        (paths,) = [archive.read(name).decode() for name in archive.namelist() if name.endswith(".pth")]
        assert not [name for name in archive.namelist() if name.endswith(".py")]
    assert paths.splitlines() == [str(ROOT)]


def texts(wheel: Path) -> dict[str, str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name).decode() for name in archive.namelist() if name.endswith(".py")}


def test_everything_stands_under_one_name(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert len(names) == len(set(names))
    assert {name.split("/")[0].partition("-")[0] for name in names} == {"walltime"}
    assert {"walltime/pipeline/run.py", "walltime/configs/sample.toml", "walltime/data_samples/traps.swf"} <= set(names)
    assert "walltime/py.typed" in names
    assert not [name for name in names if "__pycache__" in name or name.startswith("walltime/walltime")]


def test_the_wheel_has_every_file_of_the_packages(wheel: Path) -> None:
    listed = subprocess.run(
        ["git", "ls-files", "pipeline", "flows"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\n")[:-1]
    with zipfile.ZipFile(wheel) as archive:
        assert [name for name in listed if f"walltime/{name}" not in archive.namelist()] == []


def test_every_module_that_a_module_imports_is_in_the_wheel(wheel: Path) -> None:
    import ast

    found = texts(wheel)
    modules = {name.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for name in found}
    for name, text in found.items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and node.module:
                assert node.module.split(".")[0] not in ("pipeline", "flows"), name
                assert node.module.split(".")[0] != "walltime" or node.module in modules, (name, node.module)
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                assert not node.value.startswith(("pipeline.", "flows.")) or " " in node.value, (name, node.value)


SAMPLE = "from walltime import sample; print(sample('traps.swf'))"


def test_a_clean_environment_has_the_command_and_no_foreign_name(installed: Path, tmp_path: Path) -> None:
    script = "from importlib.util import find_spec as find; import walltime as wt\n"
    script += "print(wt.__version__, find('pipeline'), find('flows'))"
    shown = call([installed / "python", "-c", script], tmp_path)
    assert shown.split()[1:] == ["None", "None"]
    assert "submit_s" in call([installed / "walltime", "show", "jobs", "--columns"], tmp_path)
    sample = Path(call([installed / "python", "-c", SAMPLE], tmp_path).strip())
    assert sample.read_bytes() == (ROOT / "data_samples" / "traps.swf").read_bytes()
    assert installed.parent in sample.parents


def test_a_clean_environment_runs_a_sample(installed: Path, tmp_path: Path) -> None:
    log = call([installed / "python", "-c", SAMPLE], tmp_path).strip()
    (tmp_path / "site.toml").write_text(f"logs = ['{log}']\noutput_dir = 'out'\n[site]\nname = 'oxbow'\n")
    # Interpreted, the small log takes three seconds; compiling the kernels takes minutes.
    call([installed / "walltime", "run", "--plain", "site.toml"], tmp_path, NUMBA_DISABLE_JIT="1")
    assert list(tmp_path.glob("out/versions/*/predictions.parquet"))


@pytest.mark.skipif(not os.environ.get("WALLTIME_TEST_WHEEL"), reason="compiles every kernel anew: make test-wheel")
def test_a_clean_environment_runs_the_sample_compiled(installed: Path, tmp_path: Path) -> None:
    call([installed / "walltime", "init", "--sample"], tmp_path)
    call(
        [installed / "walltime", "run", "--plain", "my-site.toml"], tmp_path, NUMBA_CACHE_DIR=str(tmp_path / "kernels")
    )
    assert list(tmp_path.glob("my-site-tables/**/predictions.parquet"))
