"""Generates data_samples/README.md, with tables from the truth files."""

from collections.abc import Iterable, Mapping
from typing import Any

_PAGE = """\
# Sample logs

`tests/simulate.py` generates these logs and this page from known laws, and plants anomalies, which the truth files
list. No machine, site or person in them exists. You may use them under Apache-2.0 or CC0 1.0.

    python -m tests.simulate --out data_samples            # write them again, byte for byte
    python -m tests.simulate --out data_samples --check    # compare, write nothing; exit code 1 if they differ

{files}

## One day in four formats

`millrace` is a day of a cluster of {day_procs} processors: {day_jobs} jobs in {day_attempts} attempts to run one. Each
of four formats can be tried without a cluster:

    walltime run configs/slurm.toml --plain
    walltime run configs/pbs.toml --plain

There are steps, two arrays, requeued jobs, names with an input (`heat-n512.sh`), and ten hostile names with the
delimiter, markup, a formula, quotes or signs that turn the direction of a line. SWF has no job names.

## Job names that hold inputs

Names in `inputs.sacct.gz` such as `heat_n400_step100` hold a problem size and a number of steps. On p processors `heat`
takes 30 + 4e-6 n^2 steps / p seconds and `lattice` 20 + 1.5e-7 n^3 steps^0.5 / p^0.8, times lognormal noise of 0.05. A
config reads the inputs by a rule:

    [[inputs.rules]]
    find = "[a-z]+_n(?P<n>[0-9]+)_step(?P<steps>[0-9]+)"

## Jobs on GPUs

Jobs of `gpus.sacct.gz` run on 1 to 32 GPUs or processors, with lognormal noise of 0.04:

| job | user | law | counted in | processors |
| --- | --- | --- | --- | --- |
| train.sh | ada | Downey, low variance: T(1) 40,000 s, A 10, sigma 0.5 | GPUs, a100 | 8 a GPU |
| train.sh | ada | the same with T(1) 90,000 s | GPUs, v100 | 8 a GPU |
| train.sh | ada | Amdahl: T(1) 100,000 s, serial fraction 0.02 | processors, no GPUs | the count |
| infer.sh | bob | Amdahl: T(1) 20,000 s, serial fraction 0.1 | GPUs, a100 | always 16 |

## Runs over inputs

Runs of `solves.csv` have a matrix order `n`, a block size `nb` and a grid of `p` by `q` processors. The runtime has
lognormal noise of 0.03 around

    1 + 2e-9 n^3 / (p q) + 1e-6 n^2 / p + 2e-5 n q / nb seconds

## Runs whose phases repeat

`steps` is a program of 600 time steps on two ranks: each step exchanges halos, every tenth adds a coarse correction,
and every fiftieth a checkpoint. `blocks` is a program of 160 intervals of 1,000 instructions: three of one kind and two
of another in turn. `here` and `there` are two machines, the second slower by another factor for each part.
[The how-to](../docs/how-to/another-machine.md) predicts the runs there from a part of the times there.

## What is planted

The flag is that with which cleaning should set records aside; *kept* marks unusual records that must be kept.
`job_ids` in the truth files lists their numbers; the parts of a checkpointed job have the number of its summary.

{kinds}

## Textual traps

The lines of `traps.swf` end in CR LF. Most of its textual traps follow a comment that names the trap.
`textual_traps` in `traps.truth.json` has each line with how it should be read.

## How riverbend is made

Each combination of user, executable and requested memory is one application with one law, times lognormal noise;
`riverbend.truth.json` lists them. Users submit with daily and weekly cycles and request round times that are too
long. A scheduler with EASY backfilling starts the jobs. Running jobs have no runtime yet when the log ends.
"""


def readme(riverbend: Mapping[str, Any], traps: Mapping[str, Any], day: Mapping[str, Any]) -> str:
    """The whole page."""
    return _PAGE.format(
        files=_table(("file", "what it is"), _files(riverbend, traps, day)),
        day_procs=day["max_procs"],
        day_jobs=day["jobs"],
        day_attempts=len(day["attempts"]),
        kinds=_table(("kind", "riverbend", "traps", "flag", "what it is"), _kinds(riverbend, traps)),
    )


def _table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    names = list(head)
    ruled = [names, ["---"] * len(names), *rows]
    return "\n".join("| " + " | ".join("" if cell is None else str(cell) for cell in row) + " |" for row in ruled)


def _files(riverbend: Mapping[str, Any], traps: Mapping[str, Any], day: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [
        ("gpus.sacct.gz", "1,000 jobs of `sacct` on typed GPUs and on processors, with laws over either"),
        ("inputs.sacct.gz", "800 jobs of `sacct` whose names hold a problem size and a number of steps"),
        ("riverbend.swf.gz", _summary(riverbend) + "; the log `make run` reads"),
        ("riverbend.truth.json", "its laws with parameters, its planted records with job numbers, the flags to expect"),
        ("traps.swf", _summary(traps) + "; short enough to read, every anomaly and every textual trap"),
        ("traps.truth.json", "the same for it, and every record and trap by line"),
        (day["logs"]["swf"], f"{len(day['attempts'])} records of one day, {day['max_procs']} processors, as SWF"),
        (day["logs"]["sacct"], "the same day as the output of `sacct -a -P -D`; the log of `configs/slurm.toml`"),
        (day["logs"]["pbs"], "the same day as an accounting file of OpenPBS; the log of `configs/pbs.toml`"),
        (day["logs"]["table"], "the same day as a CSV with column names and units of its own"),
        ("millrace.truth.json", "its laws, and every attempt to run a job"),
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


def _kinds(riverbend: Mapping[str, Any], traps: Mapping[str, Any]) -> list[tuple[object, ...]]:
    kinds = {**traps["planted"], **riverbend["planted"]}

    def counts(kind: str) -> list[int]:
        return [truth["planted"].get(kind, {}).get("records", 0) for truth in (riverbend, traps)]

    def becomes(kind: dict[str, Any]) -> str:
        return kind["expected_flag"] or (f"*kept*, or {kind['screen']}" if kind["screen"] else "*kept*")

    order = sorted(kinds, key=lambda kind: (kinds[kind]["expected_flag"] is None, kinds[kind]["screen"] is not None))
    return [(kind, *counts(kind), becomes(kinds[kind]), kinds[kind]["meaning"]) for kind in order]
