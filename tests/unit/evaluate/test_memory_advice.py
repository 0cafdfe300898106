"""What is recommended is scored as it is said, also to jobs that asked for less."""

import numpy as np

from pipeline.estimate.history import memory_history
from pipeline.evaluate.request_advice import recommended_memory
from tests.rows import jobs_of

MIB, N_JOBS = 1024.0, 2_000


def test_a_job_that_asked_for_less_than_is_recommended_is_scored_with_the_recommendation() -> None:
    """Every fourth job asks for 2 GiB, which is seldom enough; the others for 8 GiB."""
    used_kib = 2500 * MIB * np.exp(0.1 * np.random.default_rng(0).standard_normal(N_JOBS))
    past = memory_history(jobs_of([
        {
            "user": f"u{job % 5}", "application": "solver", "submit_s": 600 * job, "start_s": 600 * job,
            "end_s": 600 * job + 300, "runtime_s": 300.0, "procs": 1, "used_mem_kib": float(kib),
            "requested_mem_kib": (8192 if job % 4 else 2048) * MIB,
        }
        for job, kib in enumerate(used_kib)
    ]))  # fmt: skip
    advice = recommended_memory(past, "user", 0.97)
    found, asked = advice["figures"], advice["asked"]
    assert asked["share_under"] > 0.2 and found["share_under"] < 0.04
    assert found["over_allocation"] < asked["over_allocation"]
    assert sum(row["n_under"] for row in advice["rows"]) == round(found["share_under"] * found["n_jobs"])
