"""What `walltime scaling advise` does: the matching groups of a published run, and the recommended counts of each."""

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flows.services.published.published_folder import rows_of_groups, unreliability_note
from flows.services.query.answers import state_of
from flows.services.query.jobs import as_ingested
from pipeline.errors import InputError, printable
from pipeline.publish import Manifest
from pipeline.scaling.advice import CostSettings, answered
from pipeline.storage import read_table
from pipeline.tables import GROUPS, OBSERVATIONS, PATTERNS, PREDICTIONS

MOST_GROUPS = 5
"""Matching groups to list, those with most jobs; the others are only counted."""

_SHOWN = ("group_id", "label", "n_jobs", "n_sizes")


def cost_of_run(manifest: Manifest, procs_per_node: int | None = None, rate: float | None = None) -> CostSettings:
    """Processors per node and price of a processor-hour: as given, else from the run's settings."""
    site = manifest.settings.get("site", {})
    return CostSettings(
        site.get("procs_per_node") if procs_per_node is None else procs_per_node,
        site.get("price_per_proc_hour") if rate is None else rate,
    )


def advised_groups(
    manifest: Manifest, wanted: Mapping[str, str], cost: CostSettings, key_file: Path | None = None
) -> dict[str, Any]:
    """Recommended counts per group with the wanted values, in plain values and sentences; most jobs first.

    `wanted` holds values by column of GROUPS, as stored there or as a user writes them. InputError where no group
    matches.
    """
    found = matching_groups(manifest, read_table(manifest.path(GROUPS.name), GROUPS), wanted, key_file)
    order = np.argsort(-found.column("n_jobs").to_numpy(), kind="stable")
    shown = found.column("group_id").take(pa.array(order[:MOST_GROUPS])).to_pylist()
    advised = advice_of_groups(manifest, shown, cost)
    return {
        "site": manifest.site,
        "run_id": manifest.run_id,
        "procs_per_node": cost.procs_per_node,
        "rate": cost.rate,
        "n_groups": found.num_rows,
        "groups": [advised[group] for group in shown],
        "notes": [sentence for sentence in (unreliability_note(manifest),) if sentence],
    }


def advice_of_groups(manifest: Manifest, group_ids: Sequence[str], cost: CostSettings) -> dict[str, dict[str, Any]]:
    """Recommended counts by group id, as `advised_groups` gives them."""
    groups = rows_of_groups(manifest, GROUPS, group_ids)
    tables = {kind.name: rows_of_groups(manifest, kind, group_ids) for kind in (OBSERVATIONS, PATTERNS, PREDICTIONS)}
    found = {}
    for group, (described,) in groups.items():
        one = {name: rows.get(group, []) for name, rows in tables.items()}
        advised = answered(one, one[PREDICTIONS.name], cost)
        facts = {name: described[name] for name in _SHOWN}
        found[group] = facts | {name: advised[name] for name in ("answer", "choices", "energy")}
    return found


def matching_groups(
    manifest: Manifest, groups: pa.Table, wanted: Mapping[str, str], key_file: Path | None = None
) -> pa.Table:
    """The groups with all wanted values; InputError where there is none.

    Names are compared as written, then as ingest would store them.
    """
    empty = [name for name in wanted if groups.column(name).null_count == groups.num_rows]
    if empty:
        template = next(iter(groups.column("template").to_pylist()), "nothing")
        found = f"groups by {template}, which does not contain {empty[0]}"
        raise InputError(f"--{empty[0].replace('_', '-')}", found, "values of these columns", "leave it out")
    found = _filtered(groups, wanted)
    if not found.num_rows and set(wanted) - {"group_id"}:
        job = as_ingested(state_of(manifest).state, manifest.settings, key_file)(wanted)
        found = _filtered(groups, {name: str(job[name]) for name in wanted})
    if not found.num_rows:
        raise InputError("walltime scaling advise", *_no_match(groups, wanted))
    return found


def _filtered(groups: pa.Table, wanted: Mapping[str, str]) -> pa.Table:
    for name, value in wanted.items():
        groups = groups.filter(pc.equal(groups.column(name).cast(pa.string()), value))
    return groups


def _no_match(groups: pa.Table, wanted: Mapping[str, str]) -> tuple[str, str]:
    """The first wanted value that no group has, and the nearest values of its column."""
    for name, value in wanted.items():
        known = sorted({str(one) for one in groups.column(name).to_pylist() if one is not None})
        if value not in known:
            near = difflib.get_close_matches(value, known, n=3, cutoff=0.4) or known[:3]
            expected = f"an existing value, such as {', '.join(printable(one, 60) for one in near)}"
            return f"no group whose {name} is {printable(value, 60)}", expected
    pairs = " and ".join(f"{name} {printable(value, 60)}" for name, value in wanted.items())
    return f"no group with {pairs} together", "values that one group has"
