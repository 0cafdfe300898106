"""Compares the jobs that the screens flag with those that the archive's curators removed by hand.

.venv/bin/python benchmarks/curated_removals.py FOLDER        FOLDER holds the archive's -cln logs; --json for figures

A cleaned log's missing job numbers are the removed jobs: the header's filters say whose, the neighbours' submits say
when. Size, runtime and application of a removed job are not known and stay null. Each log is screened twice: as it is,
and with the removed jobs mixed back in. `--factor 0.5 1 1.5` repeats it with every flurry threshold scaled.
`--own-runtimes` gives the removed jobs of a user with 20 jobs left the runtimes of those, drawn at random. That is a
pessimistic case: a flurry's jobs are more alike than its user's others.
"""

import argparse
import gzip
import json
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from pipeline.clean import clean
from pipeline.clean.flurries import BURST_RULES, BurstRules
from pipeline.ingest import ingest
from pipeline.settings import CleanSettings, IngestSettings, SiteSettings
from pipeline.tables import JOBS

LEAST_LEFT = 20
"""Fewer jobs left of a user have no distribution of runtimes to draw from."""
REMOVED_LINE = re.compile(r"\((\d+) jobs removed\)")


@dataclass(frozen=True, slots=True)
class Filter:
    """One removal of a header: whose jobs, between which job numbers (none: the whole log), and how many."""

    user: str | None
    ranges: tuple[tuple[int, int], ...]
    n_jobs: int
    hour: int | None


def filters_of(header: str) -> list[Filter]:
    """The removals a -cln log's header lists."""
    return [_filter(line) for line in header.splitlines() if REMOVED_LINE.search(line)]


def _filter(line: str) -> Filter:
    user = re.search(r"user=(\d+)", line)
    hour = re.search(r"hour>=(\d+)", line)
    ranges = [(int(low), int(high)) for low, high in re.findall(r"job>=(\d+) and job<=(\d+)", line)]
    edge = re.search(r";\s+job<=(\d+)", line)
    ranges += [(1, int(edge[1]))] if edge else []
    found = REMOVED_LINE.search(line)
    return Filter(
        user[1] if user else None, tuple(ranges), int(found[1]) if found else 0, int(hour[1]) if hour else None
    )


def owners(missing: np.ndarray, filters: list[Filter], rng: np.random.Generator) -> np.ndarray:
    """Which filter took each missing number, -1: none. Where two could have, their counts decide, by lot."""
    could = np.array([[_holds(one, number) for number in missing] for one in filters], bool).reshape(
        len(filters), len(missing)
    )
    owner = np.full(len(missing), -1)
    for k in np.argsort(could.sum(axis=1), kind="stable"):
        free = np.flatnonzero(could[k] & (owner < 0))
        sole, shared = free[could[:, free].sum(axis=0) == 1], free[could[:, free].sum(axis=0) > 1]
        lot = rng.permutation(shared)[: max(0, filters[k].n_jobs - len(sole))]
        owner[np.concatenate([sole[: filters[k].n_jobs], lot])] = k
    return owner


def _holds(one: Filter, number: int) -> bool:
    return not one.ranges or any(low <= number <= high for low, high in one.ranges)


def mixed(jobs: pa.Table, filters: list[Filter], seed: int = 1) -> tuple[pa.Table, np.ndarray]:
    """The cleaned log's jobs with the removed ones after them, and the filter of each of those."""
    numbers = np.array([int(number) for number in jobs.column("job_id").to_pylist()])
    submit_s = jobs.column("submit_s").to_numpy()
    order = np.argsort(numbers, kind="stable")
    missing = np.setdiff1d(np.arange(1, numbers.max() + 1), numbers)
    owner = owners(missing, filters, np.random.default_rng(seed))
    known = np.array([k >= 0 and filters[k].user is not None for k in owner], bool)
    missing, owner = missing[known], owner[known]
    when_s = np.interp(missing, numbers[order], submit_s[order]).astype(np.int64)
    for k, one in enumerate(filters):
        if one.hour is not None:  # a timer's jobs: moved to the hour the filter names, on their own day
            when_s[owner == k] = when_s[owner == k] // 86_400 * 86_400 + one.hour * 3600 + 600
    removed = JOBS.build(
        site=[jobs.column("site")[0].as_py()] * len(missing),
        job_id=[f"removed-{number}" for number in missing],
        restart=np.zeros(len(missing), np.int64),
        user=[filters[k].user for k in owner],
        submit_s=when_s,
        source_file=["removed"] * len(missing),
        source_line=np.arange(1, len(missing) + 1),
    )
    return JOBS.check(pa.concat_tables([jobs, removed])), owner


def with_own_runtimes(both: pa.Table, n_left: int, seed: int = 1) -> pa.Table:
    """The mixture, its removed jobs (from row `n_left` on) with runtimes drawn from those their user has left."""
    rng, users = np.random.default_rng(seed), np.array(both.column("user").to_pylist(), object)
    runtime_s = both.column("runtime_s").to_numpy().copy()
    for user in sorted(set(users[n_left:])):
        left_s = runtime_s[:n_left][(users[:n_left] == user) & (runtime_s[:n_left] > 0)]
        removed = n_left + np.flatnonzero(users[n_left:] == user)
        if len(left_s) >= LEAST_LEFT:
            runtime_s[removed] = rng.choice(left_s, len(removed))
    place = both.column_names.index("runtime_s")
    return both.set_column(place, both.schema.field(place), pa.array(runtime_s, from_pandas=True))


def figures(log: Path, rules: BurstRules, own_runtimes: bool = False) -> dict[str, Any]:
    """What the screens did to one log and to its mixture with what was removed from it."""
    with gzip.open(log, "rt", errors="replace") as lines:
        header = "".join(line for line in lines if line.startswith(";"))
    jobs, _, _ = ingest([log], SiteSettings(), IngestSettings())
    cleaned = _marks(jobs, rules)
    filters = filters_of(header)
    both, owner = mixed(jobs, filters)
    both = with_own_runtimes(both, jobs.num_rows) if own_runtimes else both
    marks = _marks(both, rules)
    old, new = marks[: jobs.num_rows], marks[jobs.num_rows :]
    return {
        "log": log.name.removesuffix(".swf.gz"),
        "jobs": jobs.num_rows,
        "cleaned_removed": float((cleaned == 2).mean()),
        "cleaned_listed": float((cleaned >= 1).mean()),
        "true_removed": int((new == 2).sum()),
        "false_removed": int((old == 2).sum()),
        "removals": [
            {"user": one.user, "jobs": one.n_jobs, "found": float((new[owner == k] >= 1).sum() / one.n_jobs)}
            for k, one in enumerate(filters)
            if one.user is not None
        ],
    }


def _marks(jobs: pa.Table, rules: BurstRules) -> np.ndarray:
    """Per job 2: set aside as part of a burst, 1: listed in a burst and kept, 0: in no burst."""
    flagged, bursts, *_ = clean(jobs, CleanSettings(), SiteSettings(), rules)
    # By tier, not by flag: a removed job's runtime is unknown, so that a flag on its record comes first.
    marks = {None: 0} | {
        burst: 2 if tier == "remove" else 1
        for burst, tier in zip(bursts.column("burst_id").to_pylist(), bursts.column("tier").to_pylist(), strict=True)
    }
    return np.array([marks[burst] for burst in flagged.column("burst_id").to_pylist()])


def scaled(factor: float) -> BurstRules:
    """The default rules with every threshold of the flurry screen times the factor."""
    limits = asdict(BURST_RULES)
    highest = {"min_jobs": np.inf, "remove_weeks": np.inf, "suspect_weeks": np.inf, "slow_weeks": np.inf}
    highest |= {"remove_share": 1.0, "remove_alike": 1.0}
    changed = {name: type(limits[name])(min(limits[name] * factor, most)) for name, most in highest.items()}
    # A larger spread asks for less; its logarithm is scaled, because a spread of 1 is none.
    changed["remove_spread"] = limits["remove_spread"] ** (1 / factor)
    return replace(BURST_RULES, **changed)


def told(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Lines of the table, then the sums the issue asks for."""
    yield "| log | jobs | set aside, cleaned | listed, cleaned | removals found by half | set aside rightly | wrongly |"
    yield "|---|---:|---:|---:|---|---:|---:|"
    for row in rows:
        found = ", ".join(f"u{one['user']} {one['found']:.2f}" for one in row["removals"]) or "none known"
        yield (
            f"| {row['log']} | {row['jobs']:,} | {row['cleaned_removed']:.2%} | {row['cleaned_listed']:.1%} | {found} "
            f"| {row['true_removed']:,} | {row['false_removed']:,} |"
        )
    removals = [one for row in rows for one in row["removals"]]
    right, wrong = sum(row["true_removed"] for row in rows), sum(row["false_removed"] for row in rows)
    yield f"\n{sum(one['found'] >= 0.5 for one in removals)} of {len(removals)} removals found by at least half."
    yield f"Of the jobs set aside in the mixtures {right / max(right + wrong, 1):.3f} were removed by the curators too."
    shares = [row["cleaned_removed"] for row in rows]
    under = {limit: sum(share < limit for share in shares) for limit in (0.02, 0.05)}
    yield f"Cleaned logs under 2%: {under[0.02]} of {len(shares)}; under 5%: {under[0.05]}."


def main() -> None:
    """Screen every -cln log of the folder and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--factor", type=float, nargs="+", default=[1.0])
    parser.add_argument("--own-runtimes", action="store_true")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    for factor in chosen.factor:
        logs = sorted(chosen.folder.glob("*-cln.swf.gz"))
        rows = [figures(log, scaled(factor), chosen.own_runtimes) for log in logs]
        plain = json.dumps({"factor": factor, "logs": rows})
        print(plain if chosen.json else "\n".join([f"\nthresholds x {factor:g}", *told(rows)]))


if __name__ == "__main__":
    main()
