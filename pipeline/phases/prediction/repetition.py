"""Whether a run repeats itself often enough that timing parts of it saves time; the reference trace alone decides."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.core.phase_settings import PhasePlanSettings

NOT_REPETITIVE = "not_repetitive"
OK = "ok"


def sampled_share(
    n_occurrences: npt.NDArray[np.int64], events: npt.NDArray[np.float64], settings: PhasePlanSettings
) -> float:
    """The share of all events that lie in the timed and warm-up occurrences, with `repetition_samples` of each phase.

    `events` are those of one occurrence, per phase. Events are counted and not times, because the answer is then the
    same on every machine.
    """
    needed = settings.repetition_samples * (1 + settings.warmup)
    total = float((n_occurrences * events).sum())
    return float((np.minimum(n_occurrences, needed) * events).sum()) / total if total else 1.0


def status_of(phases: pa.Table, settings: PhasePlanSettings) -> str:
    """OK, or NOT_REPETITIVE where timing the phases of PHASES would take almost the whole run."""
    n_occurrences, events = (phases.column(name).to_numpy() for name in ("n_occurrences", "events"))
    return OK if sampled_share(n_occurrences, events, settings) <= settings.most_share else NOT_REPETITIVE
