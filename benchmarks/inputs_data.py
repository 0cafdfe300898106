"""The measured sets of `bench_inputs.py`, read from a folder of shared measurements, with their declared inputs."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from pipeline.inputs import Declaration, DerivedInput, Input, InputType, inferred_inputs

LOG, NUMBER, CATEGORY, BOOLEAN = InputType.LOG_NUMBER, InputType.NUMBER, InputType.CATEGORY, InputType.BOOLEAN


@dataclass(frozen=True)
class RunSet:
    """Runs (one for each combination of inputs), what is declared of them, and the sizes of training sets (share)."""

    name: str
    runs: pd.DataFrame
    declaration: Declaration
    sizes: tuple[float, ...] = (0.05, 0.1, 0.2, 0.4)

    def table(self, rows: object = slice(None)) -> pa.Table:
        """Some of the runs, as a table."""
        return pa.Table.from_pandas(self.runs.iloc[rows], preserve_index=False)


def declared(types: dict[str, InputType], derived: dict[str, str] | None = None, **roles: str) -> Declaration:
    """A declaration from plain dictionaries."""
    return Declaration(
        inputs=tuple(Input(name=name, type=kind) for name, kind in types.items()),
        derived=tuple(DerivedInput(name=name, formula=formula) for name, formula in (derived or {}).items()),
        **roles,
    )


def hpl(folder: Path) -> RunSet:
    """HPL: 12 parameters; the first repetition of each."""
    runs = pd.read_csv(folder / "hpl-smpi" / "runs.csv").query("rep == 1").reset_index(drop=True)
    runs["procs"] = runs["P"] * runs["Q"]
    types = dict.fromkeys(("N", "NB", "P", "Q", "NBMIN", "NDIV"), LOG) | dict.fromkeys(("PMAP", "DEPTH"), BOOLEAN)
    types |= dict.fromkeys(("PFACT", "RFACT", "BCAST", "SWAP"), CATEGORY)
    return RunSet("HPL", runs, declared(types, procs="procs"))


def smg_parallel(folder: Path) -> RunSet:
    """SMG2000 on simulated processors: local grid and process grid; the levels of the multigrid derived from them."""
    runs = pd.read_csv(folder / "smg2000" / "smpi.csv")
    names = ["nx", "ny", "nz", "px", "py", "pz"]
    runs = runs.drop_duplicates(names).reset_index(drop=True)
    derived = {"volume": "nx*ny*nz", "gx": "nx*px", "gy": "ny*py", "gz": "nz*pz"}
    derived |= {f"levels_{axis}": f"ceil(log2(n{axis}*p{axis}))" for axis in "xyz"}
    types = dict.fromkeys([*names, "nprocs"], LOG)
    return RunSet("SMG2000", runs, declared(types, derived, procs="nprocs"))


def smg_serial(folder: Path) -> RunSet:
    """SMG2000 on one processor: the mean CPU time of the repetitions."""
    runs = pd.read_csv(folder / "smg2000" / "serial.csv")
    names = ["nx", "ny", "nz", "solver", "n_pre", "n_post"]
    runs["time_s"] = runs["user_s"] + runs["sys_s"]
    runs = runs[runs["time_s"] > 0].groupby(names, as_index=False)["time_s"].mean()
    types = dict.fromkeys(("nx", "ny", "nz", "n_pre", "n_post"), LOG) | {"solver": CATEGORY}
    return RunSet("SMG2000 serial", runs, declared(types, {"volume": "nx*ny*nz"}), (0.1, 0.2, 0.4))


def hsmgp(folder: Path, *, has_derived: bool = False) -> RunSet:
    """HSMGP: processors, sweeps before and after, smoother and coarse-grid solver as booleans."""
    runs = pd.read_csv(folder / "hsmgp_AllNumeric.csv").rename(columns={"performance": "time_s"})
    flags = [name for name in runs if name.startswith(("Smoother_", "CGS_"))]
    types = dict.fromkeys(("numCore", "pre", "post"), LOG) | dict.fromkeys(flags, BOOLEAN)
    derived = {"sweeps": "pre+post"} if has_derived else None
    name = "HSMGP, derived input" if has_derived else "HSMGP"
    return RunSet(name, runs, declared(types, derived, procs="numCore"), (0.05, 0.1, 0.2))


def hsmgp_named(folder: Path) -> RunSet:
    """HSMGP with the names of its smoother and its coarse-grid solver in place of a flag for each."""
    flagged = hsmgp(folder).runs
    runs = flagged[["numCore", "pre", "post", "time_s"]].copy()
    for name in ("Smoother", "CGS"):
        runs[name] = flagged.filter(regex=f"^{name}_").idxmax(axis=1)
    types = dict.fromkeys(("numCore", "pre", "post"), LOG) | dict.fromkeys(("Smoother", "CGS"), CATEGORY)
    return RunSet("HSMGP, names", runs, declared(types, procs="numCore"), (0.05, 0.1, 0.2))


def coded(named: RunSet) -> RunSet:
    """The set with whole numbers in place of the values of its categories, and with inferred types."""
    categories = [one.name for one in named.declaration.inputs if one.type == CATEGORY]
    runs = named.runs.assign(**{name: named.runs[name].astype("category").cat.codes.astype(int) for name in categories})
    inputs = [one.name for one in named.declaration.inputs]
    inferred = inferred_inputs(pa.Table.from_pandas(runs[inputs], preserve_index=False), inputs)
    return replace(
        named, name=f"{named.name}, codes", runs=runs, declaration=replace(named.declaration, inputs=inferred)
    )


def archer(folder: Path, application: str) -> RunSet:
    """An application of ARCHER's benchmarks: the median of each case on each system and number of ranks or nodes.

    Where a run does not say its threads, one is assumed; OpenSBLI does not say its ranks.
    """
    runs = pd.read_csv(folder / "archer_benchmarks_runs.csv").query("application == @application")
    runs["threads"] = runs["threads"].fillna(1)
    counts = [name for name in ("nodes", "ranks", "threads") if runs[name].notna().all()]
    runs = runs.groupby(["case", "system", *counts], as_index=False)["wall_s"].median()
    runs = runs.rename(columns={"wall_s": "time_s"})
    types = {"case": CATEGORY, "system": CATEGORY} | dict.fromkeys(counts, LOG)
    derived = {"cores": "ranks*threads"} if "ranks" in counts else None
    return RunSet(f"ARCHER {application}", runs, declared(types, derived), (0.8,))


SETS: tuple[Callable[[Path], RunSet], ...] = (
    hpl,
    hsmgp,
    lambda folder: hsmgp(folder, has_derived=True),
    smg_parallel,
    smg_serial,
    *(lambda folder, name=name: archer(folder, name) for name in ("CASTEP", "GROMACS", "VASP", "CP2K", "OpenSBLI")),
)


def shuffled(runs: RunSet, seed: int) -> np.ndarray:
    """The rows of a set in an order drawn by seed."""
    return np.random.default_rng(seed).permutation(len(runs.runs))
