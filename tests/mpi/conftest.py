"""A real Open MPI on this machine, for `make test-mpi` alone: `make test` does not collect this folder."""

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

SWITCH = "WALLTIME_TEST_MPI"
collect_ignore_glob = [] if os.environ.get(SWITCH) else ["*"]

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("openmpi-bin", "libopenmpi-dev")
INSTALL_TIMEOUT_S, RUN_TIMEOUT_S = 900, 120

Run = Callable[..., tuple[str, Path]]


@pytest.fixture(scope="session")
def collector(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library, built with every warning as an error; skipped where Open MPI is missing and cannot be installed."""
    if not (shutil.which("mpicc") and shutil.which("mpirun")):
        _install()
    library = tmp_path_factory.mktemp("collector") / "libwalltime_mpi_trace.so"
    flags = ["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-pthread"]
    _checked(["mpicc", *flags, "-o", str(library), str(ROOT / "collector" / "walltime_mpi_trace.c")])
    return library


@pytest.fixture
def mpirun(collector: Path, tmp_path: Path) -> Run:
    """Runs a C program of this folder under the collector, and gives its output and the path of the trace.

    The library is preloaded, or the program is linked with it (`linked`).
    """

    def run(
        source: str, *arguments: str, ranks: int, name: str = "trace", linked: bool = False, fails: bool = False
    ) -> tuple[str, Path]:
        program, trace = tmp_path / Path(source).stem, tmp_path / f"{name}.csv"
        flags = [f"-L{collector.parent}", f"-Wl,-rpath,{collector.parent}", "-lwalltime_mpi_trace"] if linked else []
        _checked(["mpicc", "-O2", "-Wall", "-Werror", "-o", str(program), str(Path(__file__).parent / source), *flags])
        command = ["mpirun", "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"]
        more = {"WALLTIME_TRACE": str(trace), "TMPDIR": str(tmp_path)}
        if not linked:
            more["LD_PRELOAD"] = str(collector)
        handed_on = [word for name in more for word in ("-x", name)]
        return _checked([*command, *handed_on, "-n", str(ranks), str(program), *arguments], more, fails=fails), trace

    return run


def _install() -> None:
    if os.geteuid() != 0:
        pytest.skip("no mpicc and mpirun, and not root to install them: the collector is not tested")
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "timeout": INSTALL_TIMEOUT_S}
    command = ["apt-get", "install", "-y", "--no-install-recommends", *PACKAGES]
    if subprocess.run(command, check=False, **quiet).returncode:  # type: ignore[call-overload]
        pytest.skip(f"{' and '.join(PACKAGES)} cannot be installed here: the collector is not tested")


def _checked(command: list[str], more: Mapping[str, str] | None = None, *, fails: bool = False) -> str:
    """The output of a command that succeeds, or that fails as it has to."""
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    done = subprocess.run(
        command, env=os.environ | root | dict(more or {}), capture_output=True, text=True, timeout=RUN_TIMEOUT_S,
        check=False,
    )  # fmt: skip
    assert (done.returncode != 0) is fails, f"{command[0]}: {done.stderr[-2000:]}"
    return done.stdout
