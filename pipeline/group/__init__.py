"""Finds similar jobs and turns them into scalability series."""

from pipeline.group.grouping import assign_groups, assign_stored, describe_groups, sort_by_group
from pipeline.group.observations import observe
from pipeline.group.templates import choose_template, with_chosen

__all__ = [
    "assign_groups", "assign_stored", "choose_template", "describe_groups", "observe", "sort_by_group",
    "with_chosen",
]  # fmt: skip
