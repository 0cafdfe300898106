"""Candidate templates: the columns among which `template = "auto"` chooses, and a code per job for each of them."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.core.arrays import Ints, category_codes
from pipeline.core.column import CATEGORY
from pipeline.core.columns import COLUMNS

Template = tuple[str, ...]

WHO = ("user", "account", "user_group")
"""Columns that can name the submitter; the first one with values is used."""

WHAT = ("application", "job_name", "queue")
"""Columns that can name what a job runs; the first one with values is used."""

_SHAPES: tuple[Template, ...] = (
    ("who", "what", "requested_memory"),
    ("who", "what"),
    ("who", "what", "requested_mem_kib"),
    ("who", "what", "requested_s"),
    ("who", "what", "requested_memory", "requested_s"),
    ("who", "what", "problem_size"),
    ("who", "what", "queue"),
    ("who", "job_name"),
    ("who", "requested_s"),
    ("who",),
)


@dataclass(frozen=True)
class JobCodes:
    """A code per job for any template over the columns of JOBS. Codes are cached; null is a value of its own."""

    jobs: pa.Table
    _held: dict[Template, npt.NDArray[np.int32]] = field(default_factory=dict)

    def of(self, template: Template) -> Ints:
        """Codes from 0, equal where site and all template values are equal; they depend on the order of the jobs."""
        if template not in self._held:
            before = self.of(template[:-1]) if template else np.zeros(self.jobs.num_rows, np.int64)
            own = column_codes(self.jobs, template[-1] if template else "site") + 1
            found = dense(pa.array(before * (int(own.max(initial=0)) + 1) + own))
            # Half the memory: one array per template is cached.
            self._held[template] = found.astype(np.int32)
        return self._held[template].astype(np.int64)


def candidates(jobs: pa.Table) -> tuple[Template, ...]:
    """The distinct templates to compare, of columns that have values in this log, in order of _SHAPES."""
    stands_for = {"who": _first_filled(jobs, WHO), "what": _first_filled(jobs, WHAT)}
    found = [tuple(dict.fromkeys(stands_for.get(name, name) for name in shape)) for shape in _SHAPES]
    filled = {name for shape in found for name in shape if name and _has_values(jobs, name)}
    templates = (tuple(name for name in shape if name in filled) for shape in found)
    return tuple(dict.fromkeys(template for template in templates if template))


def column_codes(jobs: pa.Table, name: str) -> Ints:
    """A code per job for one column's values, -1 for null."""
    if COLUMNS[name].type == CATEGORY:
        return category_codes(jobs, name)[0]
    return dense(jobs.column(name).combine_chunks())


def dense(values: pa.Array) -> Ints:
    """Codes from 0 in order of first appearance, -1 for null, in time linear in the values."""
    codes: Ints = pc.fill_null(values.dictionary_encode().indices, -1).to_numpy().astype(np.int64)
    return codes


def _first_filled(jobs: pa.Table, names: tuple[str, ...]) -> str:
    return next((name for name in names if _has_values(jobs, name)), "")


def _has_values(jobs: pa.Table, name: str) -> bool:
    """Whether the column has any value."""
    return bool(jobs.column(name).null_count < jobs.num_rows)
