"""Jobs of a log as models over inputs need them: in order of submit, with what other methods say."""

from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.arrays import Bools, Floats, Ints


@dataclass(frozen=True, slots=True)
class SubmittedRuns:
    """Arrays of one value a job, in order of submit; NaN and -1 are unknown; times s since 1970, durations s."""

    submit_s: Floats
    known_s: Floats
    """The time up to which the estimate of a job may use events."""
    end_s: Floats
    """When the runtime is known; infinite where it is not."""
    runtime_s: Floats
    is_lower_bound: Bools
    is_learnt: Bools
    requested_s: Floats
    last_two_s: Floats
    """The mean of the submitter's last two ended jobs at the submit, else the request."""
    usual_s: Floats
    """The median of the estimator that answers where no model does, as of the submit; NaN: unknown."""
    procs: Floats
    user: Ints
    users: Sequence[str]
    application: Ints
    applications: Sequence[str]
    inputs: Ints
    inputs_texts: Sequence[str]
    """JSON objects of texts by name, as in the column `inputs` of JOBS."""
