"""The state of the nightly table: remembered jobs, answered jobs that have not ended, and counts, in flat arrays."""

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from pipeline.arrays import Array, Bools, Floats, Ints
from pipeline.estimate.estimate_rules import TableRules
from pipeline.estimate.history import History, in_order_of_use
from pipeline.estimate.nightly.ladder import N_RUNGS
from pipeline.estimate.nightly.table_calibration import Calibration, empty_calibration
from pipeline.estimate.score import QUANTILES

CODED = ("who", "what", "queue")
OWN_ARRAYS = ("burst", "burst_jobs", "class_", "n_jobs", "quantiles_s", "ladder_s")


@dataclass(frozen=True, slots=True)
class Jobs:
    """Jobs as input of the table; codes are -1 where unknown, a request is 0 where there is none."""

    who: Ints
    what: Ints
    queue: Ints
    submit_s: Floats
    end_s: Floats
    """Infinite where the job has not ended."""
    runtime_s: Floats
    """NaN where it has not."""
    requested_s: Floats
    procs: Floats

    def __len__(self) -> int:
        return len(self.submit_s)

    def take(self, places: Ints | Bools) -> "Jobs":
        """The jobs at these places."""
        return Jobs(*(getattr(self, field.name)[places] for field in fields(self)))


def joined_jobs(*parts: Jobs) -> Jobs:
    """All jobs, part after part."""
    return Jobs(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(Jobs)))


def jobs_of(history: History) -> Jobs:
    """A log's jobs as input of the table."""
    return Jobs(
        who=history.codes["who"],
        what=history.codes["what"],
        queue=history.codes["queue"],
        submit_s=history.submit_s,
        end_s=history.end_s,
        runtime_s=history.runtime_s,
        requested_s=np.where(history.requested_s > 0, history.requested_s, 0.0),
        procs=history.procs,
    )


@dataclass(frozen=True, slots=True)
class TableState:
    """The state between two nights; the same jobs give the same bits, in any number of parts."""

    remembered: Jobs
    """In order of end; all had ended by `known_s`."""
    burst: Ints
    """Per remembered job its burst, numbered in order of first use."""
    burst_jobs: Ints
    """Per burst the jobs of it that ended, forgotten ones too."""
    waiting: Jobs
    """Jobs that were answered and ended after `known_s`, or have not ended."""
    class_: Ints
    """Per waiting job the class of the row that answered; -1: none did."""
    n_jobs: Ints
    """Per waiting job the jobs of that row's own key."""
    quantiles_s: Floats
    """(waiting, 6) the estimated quantiles."""
    ladder_s: Floats
    """(waiting, rungs) the ladder it was made from."""
    calibration: Calibration
    known_s: float
    """Time up to which ends have been learnt; jobs submitted later are answered by this midnight or a later one."""
    names: dict[str, tuple[str, ...]]
    """Texts of the codes of who, what and queue, in order of first use."""

    def to_arrays(self) -> dict[str, Array]:
        """The state as arrays by name."""
        arrays = {f"remembered.{f.name}": getattr(self.remembered, f.name) for f in fields(Jobs)}
        arrays |= {f"waiting.{f.name}": getattr(self.waiting, f.name) for f in fields(Jobs)}
        arrays |= {f"calibration.{name}": values for name, values in self.calibration._asdict().items()}
        arrays |= {f"names.{name}": np.array(texts, np.str_) for name, texts in self.names.items()}
        arrays |= {name: getattr(self, name) for name in OWN_ARRAYS}
        return arrays | {"known_s": np.array([self.known_s])}

    @classmethod
    def from_arrays(cls, arrays: dict[str, Array]) -> "TableState":
        """The state that `to_arrays` gave."""
        return cls(
            remembered=Jobs(*(arrays[f"remembered.{f.name}"] for f in fields(Jobs))),
            waiting=Jobs(*(arrays[f"waiting.{f.name}"] for f in fields(Jobs))),
            calibration=Calibration(*(arrays[f"calibration.{name}"] for name in Calibration._fields)),
            names={name: tuple(str(text) for text in arrays[f"names.{name}"]) for name in CODED},
            known_s=float(arrays["known_s"][0]),
            **{name: arrays[name] for name in OWN_ARRAYS},
        )


def empty_state(settings: TableRules) -> TableState:
    """The state before the first job."""
    none, some = np.empty(0, np.int64), np.empty(0)
    jobs = Jobs(none, none, none, some, some, some, some, some)
    return TableState(
        remembered=jobs,
        burst=none,
        burst_jobs=none,
        waiting=jobs,
        class_=none,
        n_jobs=none,
        quantiles_s=np.empty((0, len(QUANTILES))),
        ladder_s=np.empty((0, N_RUNGS)),
        calibration=empty_calibration(len(QUANTILES), settings.prior_jobs, settings.prior_spread),
        known_s=-np.inf,
        names=dict.fromkeys(CODED, ()),
    )


def with_names(
    jobs: Jobs, own: dict[str, list[str]], names: dict[str, tuple[str, ...]]
) -> tuple[Jobs, dict[str, list[str]]]:
    """Jobs with codes into the given names, which grow by those that are new."""
    grown: dict[str, list[str]] = {}
    codes: dict[str, Any] = {}
    for name in CODED:
        grown[name] = list(dict.fromkeys([*names[name], *own[name]]))
        place = {text: code for code, text in enumerate(grown[name])}
        codes[name] = np.array([*(place[text] for text in own[name]), -1], np.int64)[getattr(jobs, name)]
    return replace(jobs, **codes), grown


def renamed(first: Jobs, second: Jobs, names: dict[str, list[str]]) -> tuple[Jobs, Jobs, dict[str, tuple[str, ...]]]:
    """Both with codes in order of first use, and the names in use."""
    used: dict[str, tuple[str, ...]] = {}
    ahead: dict[str, Any] = {}
    behind: dict[str, Any] = {}
    n = len(first)
    for name in CODED:
        found, texts = in_order_of_use(np.concatenate([getattr(first, name), getattr(second, name)]), names[name])
        used[name], ahead[name], behind[name] = tuple(texts), found[:n], found[n:]
    return replace(first, **ahead), replace(second, **behind), used


def matched(waiting: Jobs, later: Jobs) -> tuple[Ints, Ints]:
    """Places of waiting jobs and of the later records of the same ones: equal in all that a submit tells."""
    near = np.flatnonzero(later.submit_s <= waiting.submit_s.max(initial=-np.inf))
    both = joined_jobs(waiting, later.take(near))
    rows = np.stack([getattr(both, name) for name in (*CODED, "submit_s", "requested_s", "procs")], axis=1)
    alike = np.unique(rows, axis=0, return_inverse=True)[1].ravel()
    n = len(waiting)
    # Of equal records the first matches the first.
    first, second = (counts_before(codes) * len(alike) + codes for codes in (alike[:n], alike[n:]))
    _, left, right = np.intersect1d(first, second, assume_unique=True, return_indices=True)
    return left, near[right]


def counts_before(codes: Ints) -> Ints:
    """Per place, how many earlier ones have the same code."""
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=codes.min(initial=0) - 1))
    found = np.empty(len(codes), np.int64)
    found[order] = np.arange(len(codes)) - np.repeat(starts, np.diff(starts, append=len(codes)))
    return found
