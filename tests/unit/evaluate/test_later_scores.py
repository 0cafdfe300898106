"""Predictions that daily runs would have published, scored on the jobs of later days."""

import numpy as np
import pyarrow.compute as pc

from benchmarks.later_table import later_scores
from pipeline.clean import clean
from pipeline.evaluate.later_scores import figures
from pipeline.settings import RunSettings
from tests.rows import jobs_of


def test_predictions_are_scored_on_later_jobs() -> None:
    """Two users' jobs of one length each are ok; one user's that never repeat are not."""
    source = np.random.default_rng(2)
    runtimes_s = [(100, 1000, int(wild) + 1)[n % 3] for n, wild in enumerate(source.lognormal(6, 2, 2400))]
    rows = [
        {
            "job_id": str(n), "user": str(n % 3), "procs": 4, "requested_s": 9000.0, "state": "COMPLETED",
            "submit_s": 2000 * n, "start_s": 2000 * n + 5, "end_s": 2000 * n + 5 + runtime_s,
            "runtime_s": float(runtime_s),
        }
        for n, runtime_s in enumerate(runtimes_s[1:], 1)
    ]  # fmt: skip
    settings = RunSettings()
    flagged, *_ = clean(jobs_of(rows), settings.clean, settings.site)
    found = later_scores(flagged, settings, (1 / 3, 0.98))
    assert list(found) == [1.0, 7.0]
    day = figures(found[1.0])
    assert day["jobs"] > 400 and day["median_error"] < 0.01 and day["in_95"] > 0.9
    assert 0.6 < day["ok_share"] < 0.7
    assert figures(found[1.0].filter(pc.equal(found[1.0]["is_ok"], True)))["in_80"] == 1.0
