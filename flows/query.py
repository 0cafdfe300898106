"""What `walltime query` does, apart from printing: a question, the published tables, an answer and why."""

import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from pipeline.core.errors import InputError
from pipeline.core.matching import Value
from pipeline.core.store import filled_columns, find_only_row, find_row, read_columns
from pipeline.core.tables import ESTIMATES, GROUPS, PREDICTIONS
from pipeline.predict.lookup import Answer, Fitted, Question, look_up, wanted
from pipeline.publish import Manifest, load_manifest

_FIT = (
    "runtime_s", "runtime_s_lo80", "runtime_s_hi80", "runtime_s_lo95", "runtime_s_hi95", "reliability", "method",
)  # fmt: skip


def answer(published: Path, values: Mapping[str, Value], site: str | None = None) -> dict[str, Any]:
    """The answer to one job in plain values; `seconds`: how long it took, from the manifest on.

    Ages count to the newest end in the tables, the moment they speak of. InputError where tables are missing, hold
    no job, or no job of the site asked for.
    """
    began = time.perf_counter()
    manifest = load_manifest(published)
    estimates = read_columns(manifest.path(ESTIMATES.name), ESTIMATES)
    as_of_s = manifest.data_newest_end_s
    if as_of_s is None:
        as_of_s = pc.max(estimates.column("newest_end_s")).as_py()
    question = Question(values, site)
    found = look_up(estimates, question, as_of_s, lambda: _fitted(manifest, question))
    if found is None:
        raise _no_job(manifest, site)
    return _plain(found, manifest, as_of_s) | {"seconds": time.perf_counter() - began}


def _fitted(manifest: Manifest, question: Question) -> Fitted | None:
    """The scalability fit of the job's group at its processors; None where there is no such group or size.

    Where the question leaves columns of a group open, the only group with what it does tell is the job's.
    """
    named = [str(name) for name in manifest.settings.get("group", {}).get("template", ())]
    template = filled_columns(manifest.path(GROUPS.name), GROUPS, named)
    held = wanted(template, question) if template else None
    if held is None:
        return None
    names = ("group_id", "n_jobs", "n_sizes", "last_end_s")
    told = {name: value for name, value in held.items() if value is not None}
    group = find_row(manifest.path(GROUPS.name), GROUPS, held, names)
    if group is None and len(told) < len(held):
        group = find_only_row(manifest.path(GROUPS.name), GROUPS, told, names)
    if group is None:
        return None
    at = {"group_id": group["group_id"], "procs": question.values["procs"]}
    fit = find_row(manifest.path(PREDICTIONS.name), PREDICTIONS, at, _FIT)
    return None if fit is None else _as_fitted("+".join(template), group, fit)


def _as_fitted(template: str, group: Mapping[str, Any], fit: Mapping[str, Any]) -> Fitted:
    return Fitted(
        template=template,
        runtime_s=fit["runtime_s"],
        lo80_s=fit["runtime_s_lo80"],
        hi80_s=fit["runtime_s_hi80"],
        lo95_s=fit["runtime_s_lo95"],
        hi95_s=fit["runtime_s_hi95"],
        reliability=fit["reliability"],
        method=fit["method"],
        n_jobs=group["n_jobs"],
        n_sizes=group["n_sizes"],
        newest_end_s=group["last_end_s"],
    )


def _no_job(manifest: Manifest, site: str | None) -> InputError:
    where = str(manifest.path(ESTIMATES.name))
    if site is None:
        return InputError(where, "estimates from no job at all", "at least one", "run over a log with jobs")
    return InputError("--site", f"no job of {site} in {where}", f"the site of the run, as {manifest.site}")


def _plain(found: Answer, manifest: Manifest, as_of_s: int | None) -> dict[str, Any]:
    plain = asdict(found)
    quantiles = plain.pop("quantiles_s")
    return {
        "runtime_s": quantiles[50],
        **{f"runtime_s_q{q}": value for q, value in quantiles.items()},
        **plain,
        "passed": list(found.passed),
        "as_of_s": as_of_s,
        "run_id": manifest.run_id,
        "site": manifest.site,
    }
