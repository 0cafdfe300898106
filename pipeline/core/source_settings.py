"""Settings of the source of jobs that a config names instead of a list of logs."""

from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from pipeline.core.section import Section

KEYS = {
    "logs": (),
    "sacct": ("since", "cluster", "overlap_s", "retries", "retry_delay_s"),
    "folder": ("folder", "pattern"),
    "jobs": ("path",),
}
"""Per kind of source the keys that belong to it; a folder and a table need theirs."""

_NEEDED = {"folder": "folder", "jobs": "path"}

# A name is an argument of sacct, which splits it at commas and reads a leading dash as an option.
ClusterName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$")]


class SourceSettings(Section):
    """Where the jobs of a run come from: the config's logs, this machine's sacct, a folder of logs, or a table."""

    kind: Literal["logs", "sacct", "folder", "jobs"] = Field(
        "logs", description="logs: the config's logs; sacct: this machine's; folder: logs in it; jobs: a table JOBS."
    )
    since: str | None = Field(
        None,
        min_length=1,
        description="sacct: a date, or how long before the first run (as in 90d); default: ingest.sacct_days.",
    )
    cluster: ClusterName | None = Field(
        None, description="sacct: the cluster, where the accounting knows several; job ids of several would collide."
    )
    overlap_s: float = Field(
        21_600.0, ge=0, allow_inf_nan=False, description="sacct: what a later run reads again, for late records (s)."
    )
    retries: int = Field(
        3, ge=0, le=20, description="sacct: how often a nightly run under Prefect asks a failing sacct again."
    )
    retry_delay_s: float = Field(
        30.0, ge=0, le=3600, description="sacct: the wait before asking again, doubled each time (s)."
    )
    folder: str | None = Field(None, min_length=1, description="folder: its path, relative to the config's folder.")
    pattern: str = Field("*", min_length=1, description="folder: which files in it are logs, as in 20*.")
    path: str | None = Field(None, min_length=1, description="jobs: the table, relative to the config's folder.")

    @model_validator(mode="after")
    def _check_keys(self) -> Self:
        # Settings are dumped and read again with every key, so that a key at its default says nothing.
        fields = type(self).model_fields
        given = {name for name in self.model_fields_set if getattr(self, name) != fields[name].default}
        others = given - {"kind", *KEYS[self.kind]}
        if others:
            known = ", ".join(KEYS[self.kind]) or "no other key"
            raise ValueError(f"{', '.join(sorted(others))} does not go with kind {self.kind}, which takes {known}")
        needed = _NEEDED.get(self.kind)
        if needed and getattr(self, needed) is None:
            raise ValueError(f"kind {self.kind} needs {needed}")
        return self
