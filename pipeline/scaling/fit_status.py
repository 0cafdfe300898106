"""The status of a fit. A failed or unreliable fit is a row with a status."""

from enum import StrEnum


class FitStatus(StrEnum):
    """Kernels write the position of a status in this order: see STATUS_CODE."""

    OK = "ok"
    TOO_FEW_POINTS = "too_few_points"
    TAIL_UNIDENTIFIED = "tail_unidentified"
    HEAD_UNIDENTIFIED = "head_unidentified"
    AT_BOUND = "at_bound"
    BAD_VALUES = "bad_values"
    RUNNER_UP = "runner_up"
    NO_INSTANCE = "no_instance"

    @property
    def meaning(self) -> str:
        """One line for a person."""
        return _MEANINGS[self]


_MEANINGS = {
    FitStatus.OK: "every parameter is determined by the sizes observed",
    FitStatus.TOO_FEW_POINTS: "fewer distinct sizes than the law has parameters: nothing was fitted",
    FitStatus.TAIL_UNIDENTIFIED: "runtime still falls at the largest size: any A in the range given fits equally well",
    FitStatus.HEAD_UNIDENTIFIED: "too few sizes on the slope: any A in the range given fits equally well",
    FitStatus.AT_BOUND: "the optimum lies on the edge of the law's domain: another law may fit better",
    FitStatus.BAD_VALUES: "a size below 1 or not rising, or a runtime or weight that is not finite and positive",
    FitStatus.RUNNER_UP: "a second curve fits equally well: the two have the A at the ends of the range given",
    FitStatus.NO_INSTANCE: "no curve of the law lies in the envelope of ADEPT's search: nothing was fitted",
}

STATUSES = tuple(FitStatus)
STATUS_CODE = {status: code for code, status in enumerate(STATUSES)}
