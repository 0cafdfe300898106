"""The scalability prediction of a job's group, shown beside the estimate."""

from collections.abc import Mapping
from typing import Any

from flows.services.published.published_folder import filled_columns, find_rows
from pipeline.arrays import Value
from pipeline.publish import Manifest
from pipeline.tables import GROUPS, PREDICTIONS

_FIT = (
    "runtime_s", "runtime_s_lo80", "runtime_s_hi80", "runtime_s_lo95", "runtime_s_hi95", "reliability", "method",
)  # fmt: skip


def fit_of(manifest: Manifest, job: Mapping[str, Value]) -> dict[str, Any] | None:
    """The prediction of the job's group at its processors; None where there is no such group or count.

    Where values of a group are not given, the group is the only one with the given values.
    """
    if job.get("procs") is None or not {GROUPS.name, PREDICTIONS.name} <= set(manifest.tables):
        return None
    path = manifest.path(GROUPS.name)
    described = find_rows(path, GROUPS, {}, ("template",))
    template = filled_columns(path, GROUPS, str(described[0]["template"]).split("+") if described else [])
    group = _group(manifest, {name: _template_value(job, name) for name in template})
    if group is None:
        return None
    at = {"group_id": group.pop("group_id"), "procs": job["procs"]}
    fits = find_rows(manifest.path(PREDICTIONS.name), PREDICTIONS, at, _FIT)
    return {"template": "+".join(template), **fits[0], **group} if fits else None


def _template_value(job: Mapping[str, Value], name: str) -> Value:
    """The job's value of a template column; memory is per processor unless given otherwise."""
    kib = job.get("requested_mem_kib")
    if name == "requested_memory" and job.get(name) is None and kib is not None:
        from pipeline.ingest.reader import PROCESSOR, memory_text  # noqa: PLC0415  (takes 0.1 s, needed for memory only)

        return memory_text(float(kib), PROCESSOR)
    return job.get(name)


def _group(manifest: Manifest, held: Mapping[str, Value]) -> dict[str, Any] | None:
    names, path = ("group_id", "n_jobs", "n_sizes"), manifest.path(GROUPS.name)
    known = {name: value for name, value in held.items() if value is not None}
    if not known:
        return None
    groups = find_rows(path, GROUPS, held, names)
    if not groups and len(known) < len(held):
        groups = find_rows(path, GROUPS, known, names, most=2)
    return groups[0] if len(groups) == 1 else None
