"""Generates data_samples/README.md, with tables from the truth files."""

from collections.abc import Iterable, Mapping
from typing import Any

_PAGE = """\
# Sample logs

`tools/simulate.py` generates these logs and this page from known laws, and plants anomalies, which the truth files
list. No machine, site or person in them exists. You may use them under Apache-2.0 or CC0 1.0.

    python -m tools.simulate --out data_samples            # write them again, byte for byte
    python -m tools.simulate --out data_samples --check    # compare, write nothing; exit code 1 if they differ

{files}

## One day in four formats

`millrace` is a day of a cluster of {day_procs} processors: {day_jobs} jobs in {day_attempts} attempts to run one, with
steps, two arrays, requeued jobs and ten hostile names (delimiters, markup, formulas, quotes, signs that turn the
direction of a line). It can be tried without a cluster:

    walltime run configs/slurm.toml --plain
    walltime run configs/pbs.toml --plain

## Laws

All runtimes have lognormal noise: 0.05 in `inputs`, 0.04 in `gpus`, 0.03 in `solves`.

- `inputs.sacct.gz`, on p processors: `heat_n400_step100` takes 30 + 4e-6 n^2 steps / p seconds, `lattice` 20 + 1.5e-7
  n^3 steps^0.5 / p^0.8. `[[inputs.rules]]` with `find = "[a-z]+_n(?P<n>[0-9]+)_step(?P<steps>[0-9]+)"` reads n and
  steps.
- `gpus.sacct.gz`, `train.sh` of ada: Downey's law with A 10 and sigma 0.5 over 1 to 32 GPUs with 8 processors each,
  T(1) 40,000 s on a100 and 90,000 s on v100. Without GPUs Amdahl's law, T(1) 100,000 s, serial fraction 0.02.
- `gpus.sacct.gz`, `infer.sh` of bob: Amdahl's law over a100 GPUs, T(1) 20,000 s, serial fraction 0.1, always 16
  processors.
- `solves.csv`, matrix order n, block size nb, p by q processors: 1 + 2e-9 n^3 / (p q) + 1e-6 n^2 / p + 2e-5 n q / nb
  seconds.
- `steps`: 600 time steps on two ranks; every tenth adds a coarse correction, every fiftieth a checkpoint.
- `blocks`: 160 intervals of 1,000 instructions, three of one kind and two of another in turn.
- `here` and `there` are two machines, the second slower by another factor for each phase
  ([how-to](../docs/how-to/another-machine.md)).
- `riverbend`: one law for each combination of user, executable and requested memory. Users submit with daily and weekly
  cycles and request too long times; a scheduler with EASY backfilling starts the jobs.

## What is planted

In parentheses: records in riverbend, records in traps, and the flag that cleaning should set; *kept* marks unusual
records that must be kept.

{kinds}

Most textual traps of `traps.swf` follow a comment that names the trap.
"""


def readme(riverbend: Mapping[str, Any], traps: Mapping[str, Any], day: Mapping[str, Any]) -> str:
    """The whole page."""
    return _PAGE.format(
        files=_listed((f"`{name}`", told) for name, told in _files(riverbend, traps, day)),
        day_procs=day["max_procs"],
        day_jobs=day["jobs"],
        day_attempts=len(day["attempts"]),
        kinds=_listed(_kinds(riverbend, traps)),
    )


def _listed(rows: Iterable[tuple[str, str]]) -> str:
    return "\n".join(f"- {name}: {told}" for name, told in rows)


def _files(riverbend: Mapping[str, Any], traps: Mapping[str, Any], day: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [
        ("gpus.sacct.gz", "1,000 jobs of `sacct` on typed GPUs and on processors"),
        ("inputs.sacct.gz", "800 jobs of `sacct` whose names contain a problem size and a number of steps"),
        ("riverbend.swf.gz", _summary(riverbend) + "; the log `make run` reads"),
        ("traps.swf", _summary(traps) + "; with every anomaly and textual trap"),
        (day["logs"]["swf"], f"{len(day['attempts'])} records of one day, {day['max_procs']} processors, as SWF"),
        (day["logs"]["sacct"], "the same day from `sacct -a -P -D`; the log of `configs/slurm.toml`"),
        (day["logs"]["pbs"], "the same day from OpenPBS; the log of `configs/pbs.toml`"),
        (day["logs"]["table"], "the same day as a CSV with other column names and units"),
        ("millrace.lsb.acct", "its jobs that ended, as LSF's accounting file"),
        ("millrace.jobcomp", "its jobs that ended, as Slurm's `jobcomp/filetxt`"),
        (
            "*.truth.json",
            "laws, planted records with job numbers, flags to expect; of traps every line, of millrace every attempt",
        ),
        (
            "steps.here.csv.gz, steps.there.csv.gz",
            "the MPI calls of a program on two machines, for `walltime phases find`",
        ),
        ("blocks.bb", "basic-block vectors of a run, as valgrind's `exp-bbv` writes them"),
        ("blocks.here.csv, blocks.there.csv", "the times of its intervals on two machines"),
        ("solves.csv", "30 runs of a linear solver over four inputs, for `walltime inputs learn`"),
    ]


def _summary(truth: Mapping[str, Any]) -> str:
    return (
        f"{truth['lines']['record']:,} records over {truth['days']} days, {truth['max_procs']} processors, "
        f"{len(truth['applications'])} applications"
    )


def _kinds(riverbend: Mapping[str, Any], traps: Mapping[str, Any]) -> list[tuple[str, str]]:
    kinds = {**traps["planted"], **riverbend["planted"]}

    def counts(kind: str) -> str:
        return ", ".join(f"{truth['planted'].get(kind, {}).get('records', 0)}" for truth in (riverbend, traps))

    def becomes(kind: dict[str, Any]) -> str:
        return kind["expected_flag"] or (f"*kept*, or {kind['screen']}" if kind["screen"] else "*kept*")

    order = sorted(kinds, key=lambda kind: (kinds[kind]["expected_flag"] is None, kinds[kind]["screen"] is not None))
    return [(f"**{kind}** ({counts(kind)}; {becomes(kinds[kind])})", kinds[kind]["meaning"]) for kind in order]
