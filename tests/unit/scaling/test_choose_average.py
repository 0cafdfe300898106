"""The benchmark that chooses the average's constants computes the product's own average."""

import numpy as np
import pytest

from benchmarks.choose_average import Constants, left_out, log_medians, problem
from pipeline.scaling.curves import PREDICTORS, PredictionTask


def test_the_defaults_give_what_walltime_predicts() -> None:
    """Eight noisy series of two applications; targets inside, beyond and below."""
    rng = np.random.default_rng(11)
    procs, n_series = np.array([2.0, 4.0, 16.0, 32.0]), 8
    shares, overheads = rng.uniform(0, [[0.2], [0.01]], (2, n_series))[:, :, None]
    curves_s = 100 * (shares + (1 - shares) / procs + overheads * procs)
    targets = np.tile([1.0, 8.0, 64.0, 128.0], n_series)
    asked = PredictionTask(
        offsets=np.arange(0, 4 * n_series + 1, 4),
        application=np.repeat([0, 1], 4),
        procs=np.tile(procs, n_series),
        runtime_s=curves_s.ravel() * np.exp(0.05 * rng.standard_normal(4 * n_series)),
        n_runs=np.ones(4 * n_series),
        log_sd=np.full(4 * n_series, np.nan),
        target_series=np.repeat(np.arange(n_series), 4),
        target_procs=targets,
    )
    found = log_medians(problem("made", asked, np.ones(targets.size), ("a", "b")), Constants())
    assert found == pytest.approx(np.log(PREDICTORS["walltime"](asked)), abs=0.01)


def test_an_application_has_no_say_in_its_own_value() -> None:
    by_value = {1.0: {"a": 0.0, "b": 5.0, "c": 1.0}, 2.0: {"a": 9.0, "b": 4.0, "c": 1.0}}
    assert left_out(by_value) == {"a": 2.0, "b": 1.0, "c": 1.0}
