"""The measured series of other projects as CSVs that `walltime scaling evaluate` reads.

python -m benchmarks.scaling_data DATA_FOLDER OUT_FOLDER

DATA_FOLDER holds archer_benchmarks_runs.csv, more_codes.csv, seven_codes.csv, tntech-namd-*.csv, npb-smpi/runs.csv and
hsmgp_AllNumeric.csv. Written are real.csv (a series per application, case, system, variant and threads; processors are
ranks times threads), npb-A.csv, npb-W.csv and npb-S.csv (a series per benchmark and platform), and hsmgp.csv (every
eighth configuration, weak scaling at four counts). HadGEM3's runs are left out, because each count has a layout of its
own; so are HPL's and SMG2000's, where no setting ran at more than three.
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd

DATA = Path(__file__).parents[2] / "shared" / "data" / "scaling"
"""Where the data stand in the project's own workplace."""

EVERY_HSMGP = 8
"""Of 864 configurations one in eight: they differ little."""

COLUMNS = ["application", "problem_size", "series", "procs", "runtime_s"]


def archer(folder: Path) -> pd.DataFrame:
    """CASTEP, CP2K, GROMACS and VASP; runs that tell no processor count or no time are left out.

    OpenSBLI is left out: its times are of unequal numbers of iterations, which its files do not tell (871 s on 256
    cores of ARCHER2, 4,608 s on 512).
    """
    runs = pd.read_csv(folder / "archer_benchmarks_runs.csv")
    runs = runs[runs.application != "OpenSBLI"]
    by_rank = runs.ranks * runs.threads.fillna(1)
    # Ranks, cores and nodes are never counts of one series.
    runs["kind"] = np.select([by_rank.notna(), runs.cores_in_name.notna()], ["ranks", "cores"], "nodes")
    runs["procs"] = by_rank.fillna(runs.cores_in_name).fillna(runs.nodes)
    runs = runs.dropna(subset=["procs", "wall_s"])
    told = runs[["system", "variant", "threads", "kind"]].astype(object).fillna("-").astype(str)
    runs = runs.assign(series=told.agg(" ".join, axis=1), problem_size=runs.case, runtime_s=runs.wall_s)
    return runs.assign(procs=runs.procs.astype(int))[COLUMNS]


def namd(folder: Path) -> pd.DataFrame:
    """NAMD at five sizes of system."""
    parts = []
    for path in sorted(folder.glob("tntech-namd-*.csv")):
        runs = pd.read_csv(path).set_axis(["procs", "runtime_s"], axis=1)
        parts.append(runs.assign(application="NAMD", problem_size=path.stem.split("-", 2)[2], series="tntech"))
    return pd.concat(parts)[COLUMNS]


def npb(folder: Path, size: str) -> pd.DataFrame:
    """NAS benchmarks of one class on three simulated clusters."""
    runs = pd.read_csv(folder / "npb-smpi" / "runs.csv")
    runs = runs[runs["class"] == size]
    named = {"benchmark": "application", "class": "problem_size", "platform": "series", "nprocs": "procs"}
    return runs.rename(columns=named | {"time_s": "runtime_s"})[COLUMNS]


def hsmgp(folder: Path) -> pd.DataFrame:
    """A multigrid solver; a series per configuration."""
    runs = pd.read_csv(folder / "hsmgp_AllNumeric.csv")
    told = runs.drop(columns=["numCore", "performance"]).astype(int).astype(str).agg("".join, axis=1)
    runs = runs.assign(application="HSMGP", problem_size="weak", series=told, procs=runs.numCore.astype(int))
    kept = sorted(told.unique())[::EVERY_HSMGP]
    return runs[told.isin(kept)].rename(columns={"performance": "runtime_s"})[COLUMNS]


def more_codes(folder: Path) -> pd.DataFrame:
    """WRF, FFTs, CP2K, Castro and deep learning: the series marked balanced, so that no code outweighs the others."""
    runs = pd.read_csv(folder / "more_codes.csv")
    runs = runs[runs.balanced == 1]
    names = {"castro-wdmerger": "Castro", "cp2k": "CP2K", "dl-gpu": "DL", "fft": "FFT", "wrf-cheyenne-total": "WRF"}
    code, rest = runs.series.str.split(":", n=1).str[0], runs.series.str.split(":", n=1).str[1]
    # N of a transform, cells of Castro, replicas of CP2K: sizes of one problem; WRF's cases are problems of their own.
    size = rest.str.extract(r"\b(N\d+|\d+base|NREP=\d+)")[0].fillna(rest)
    way = [whole.replace(part, "") for whole, part in zip(rest, size, strict=True)]
    return runs.assign(application=code.map(names), problem_size=size, series=way)[COLUMNS]


def seven_codes(folder: Path) -> pd.DataFrame:
    """AMG2023, Branson, CloverLeaf, GROMACS 42M, NEMO, TeaLeaf and UMT, in cores or nodes, as their files say."""
    return pd.read_csv(folder / "seven_codes.csv")[COLUMNS]


def by_size(runs: pd.DataFrame) -> pd.DataFrame:
    """A row per series and size, by name and procs: code, name, procs, median runtime_s, n_runs, log_sd of repeats."""
    named = runs.assign(name=runs[COLUMNS[:3]].agg(" ".join, axis=1), code=runs.application)
    grouped = named.groupby(["code", "name", "procs"]).runtime_s
    spread = grouped.agg(lambda times: np.log(times).std(ddof=1))
    return pd.DataFrame({"runtime_s": grouped.median(), "n_runs": grouped.size(), "log_sd": spread}).reset_index()


def measured(folder: Path) -> pd.DataFrame:
    """Every measured code, by size."""
    return by_size(pd.concat([archer(folder), namd(folder), more_codes(folder), seven_codes(folder)]))


def simulated(folder: Path) -> pd.DataFrame:
    """The NAS benchmarks, by size."""
    return by_size(pd.concat([npb(folder, size) for size in "AWS"]))


def write(folder: Path, out: Path) -> None:
    """Write the CSVs and say how many series each holds."""
    out.mkdir(parents=True, exist_ok=True)
    tables = {"real": pd.concat([archer(folder), namd(folder)])} | {f"npb-{size}": npb(folder, size) for size in "AWS"}
    tables["hsmgp"] = hsmgp(folder)
    for name, table in tables.items():
        table.to_csv(out / f"{name}.csv", index=False)
        print(f"{out / name}.csv: {len(table)} runs, {table.groupby(COLUMNS[:3]).ngroups} series")


def main() -> None:
    """Write what the command line names."""
    if len(sys.argv) != 3:
        print("skipped: give the folder of the data and the folder to write")
        return
    write(Path(sys.argv[1]), Path(sys.argv[2]))


if __name__ == "__main__":
    main()
