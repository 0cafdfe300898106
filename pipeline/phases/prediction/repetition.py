"""Whether a run repeats itself often enough that timing parts of it saves time; the reference trace alone decides."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.core.phase_settings import PhasePlanSettings

NOT_REPETITIVE = "not_repetitive"
OK = "ok"


def sampled_share(
    n_occurrences: npt.NDArray[np.int64], amounts: npt.NDArray[np.float64], settings: PhasePlanSettings
) -> float:
    """The share of events, or of the time, in `repetition_samples` timed occurrences of each phase and their warm-up.

    `amounts` are those of one occurrence, per phase. Events give the same answer on every machine.
    """
    needed = settings.repetition_samples * (1 + settings.warmup)
    total = float((n_occurrences * amounts).sum())
    return float((np.minimum(n_occurrences, needed) * amounts).sum()) / total if total else 1.0


def status_of(phases: pa.Table, settings: PhasePlanSettings) -> str:
    """OK, or NOT_REPETITIVE where timing the phases of PHASES would take almost all events, or almost all the time."""
    n_occurrences, events, time_s = (phases.column(name).to_numpy() for name in ("n_occurrences", "events", "time_s"))
    # A long computation that occurs once has few events.
    shares = [sampled_share(n_occurrences, one, settings) for one in (events, time_s / n_occurrences)]
    return OK if max(shares) <= settings.most_share else NOT_REPETITIVE
