"""Memory is learnt as runtimes are: no elapsed time enters, OUT_OF_MEMORY is a lower bound, the promise holds."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.memory_table import figures_of_rules
from pipeline.arrays import Floats
from pipeline.estimate.estimates import AIM, make_memory, price_of, prices, recommended_kib
from pipeline.estimate.history import history, memory_history
from pipeline.estimate.questions import questions_of
from pipeline.estimate.stage import learn_memory, learn_state
from pipeline.estimate.state import estimate, walltime
from pipeline.evaluate import check_no_look_ahead
from pipeline.settings import SiteSettings
from pipeline.tables import MEMORY, MEMORY_STATE
from tests.rows import jobs_of
from tests.unit.estimate.states import as_loaded, differing

GIB = 1024.0**2
SITE = SiteSettings(name="here")
ASKED_KIB = 8 * GIB


def log_of(used_kib: Floats, procs: object = 4, **columns: object) -> pa.Table:
    """A job every ten minutes, of six users in turn; each ends after three hours and asks for ASKED_KIB."""
    n = len(used_kib)
    return jobs_of([
        {
            "user": f"u{place % 6}", "application": "solver", "queue": "batch",
            "submit_s": 600 * place, "start_s": 600 * place, "end_s": 600 * place + 10_800, "runtime_s": 9000.0,
            "requested_s": 20_000.0, "procs": int(one), "requested_mem_kib": ASKED_KIB, "used_mem_kib": float(kib),
        } | columns
        for place, (kib, one) in enumerate(zip(used_kib, np.broadcast_to(np.asarray(procs), n), strict=True))
    ])  # fmt: skip


def planted(n: int, seed: int) -> Floats:
    """Memory of six users, each about a power of two of its own."""
    generator = np.random.default_rng(seed)
    return 0.05 * GIB * 2.0 ** (np.arange(n) % 6) * np.exp(0.2 * generator.standard_normal(n))


def test_what_is_recommended_keeps_the_promise_and_gives_less_than_was_asked() -> None:
    found = figures_of_rules(memory_history(log_of(planted(6000, 1))))
    assert found["recommended, 97%"]["share_under"] <= 0.03 and found["recommended, 97%"]["worst_share"] <= 0.09
    assert found["request"]["share_under"] == 0.0
    assert found["recommended, 97%"]["over_allocation"] < found["request"]["over_allocation"] / 5
    assert found["last five + 20%"]["share_under"] >= 0.03


def test_a_job_that_ran_out_of_memory_needed_more_than_it_asked_for() -> None:
    """The measured 1 GiB is where it was stopped; a log of such jobs says that 8 GiB are too little."""
    jobs = log_of(np.full(40, GIB), state="OUT_OF_MEMORY")
    past = memory_history(jobs)
    assert past.is_lower_bound.all() and (past.runtime_s == ASKED_KIB).all()
    plain = memory_history(log_of(np.full(40, GIB)))
    assert not plain.is_lower_bound.any() and (plain.runtime_s == GIB).all()


def test_a_job_without_a_known_memory_teaches_nothing() -> None:
    jobs = log_of(np.tile([0.0, GIB], 20))
    past = memory_history(jobs)
    assert past.has_run.tolist() == [False, True] * 20
    # Nothing is filled in where neither a use nor a request is known, also of a job that ran out of memory.
    nothing = memory_history(log_of(np.zeros(10), state="OUT_OF_MEMORY", requested_mem_kib=None))
    assert not nothing.has_run.any() and not nothing.is_lower_bound.any()


def test_how_long_a_job_has_run_says_nothing_about_memory() -> None:
    """The memory is of the size of the times, KiB and s, so that a time taken for memory would show."""
    jobs = log_of(planted(300, 2) / 50)
    past, timed = memory_history(jobs), history(jobs)
    found = walltime(past)
    assert not np.array_equal(found, walltime(replace(past, start_s=timed.start_s)))
    assert np.isinf(past.start_s).all()


def test_no_job_is_answered_with_what_was_known_later() -> None:
    past = memory_history(log_of(planted(400, 3)))
    check_no_look_ahead(walltime, past)


@pytest.mark.parametrize(("power", "low", "high"), [(0.0, 0.9, 1.2), (-1.0, 0.1, 0.3)])
def test_memory_on_a_new_count_is_that_of_the_counts_that_ran(power: float, low: float, high: float) -> None:
    """As much per processor on every count, or as much for the whole job: 1 GiB per processor on one, asked on ten."""
    procs = np.tile([1, 2, 4, 8], 60)
    generator = np.random.default_rng(4)
    used = GIB * procs.astype(float) ** power * np.exp(0.02 * generator.standard_normal(len(procs)))
    state = as_loaded(learn_memory(log_of(used, procs, user="ada", requested_mem_kib=None), SITE)[0])
    question = {"user": "ada", "application": "solver", "procs": 10}
    median = estimate(state, questions_of([question], np.array([state.as_of_s]), "UTC"))[0, 1]
    assert low < median / GIB < high


def test_a_log_without_memory_gives_empty_tables_and_the_state_of_runtimes_is_the_same() -> None:
    jobs = log_of(planted(60, 5))
    without = log_of(planted(60, 5), used_mem_kib=None)
    state, report = learn_memory(without, SITE)
    assert state.equals(MEMORY_STATE.empty()) and report.check().seen.rows == 0
    assert make_memory(state, without, "r")[0].equals(MEMORY.empty())
    assert not differing(*(learn_state(one, SITE)[0] for one in (jobs, without)))


def test_the_published_table_has_what_is_recommended_in_whole_mib() -> None:
    jobs = log_of(np.full(240, 1000.0 * 1024))
    table, report = make_memory(learn_memory(jobs, SITE)[0], jobs, "r")
    assert table.num_rows == report.check().kept.rows > 6
    assert {kib % 1024 for kib in table["recommended_mem_kib"].to_pylist()} == {0.0}
    # Jobs that all use the same get at least that, whatever is rounded on the way.
    own = [row for row in table.to_pylist() if row["chain_rank"] == 0]
    assert own and all(1000 * 1024 <= row["recommended_mem_kib"] < ASKED_KIB for row in own)
    assert own[0]["requested_mem_kib"] == ASKED_KIB and "requested_mem_kib" in own[0]["template"]


def test_the_most_that_a_key_ever_used_is_kept_and_a_job_that_ran_out_used_what_it_had() -> None:
    used_kib = np.where(np.arange(400) == 7, 3 * GIB, GIB)
    out = dict.fromkeys(("u0", "u1"), ASKED_KIB)
    for state, most in (("COMPLETED", {"u0": GIB, "u1": 3 * GIB}), ("OUT_OF_MEMORY", out)):
        jobs = log_of(used_kib, state=state)
        table = make_memory(learn_memory(jobs, SITE)[0], jobs, "r")[0]
        rows = [row for row in table.to_pylist() if row["who"] in (None, *most)]
        assert {row["who"]: row["largest_mem_kib"] for row in rows} == most | {None: max(most.values())}


def test_amounts_are_rounded_up() -> None:
    quantiles = np.array([[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [1024.0] * 6, [np.nan] * 6])
    found, share = recommended_kib(quantiles, np.ones(3), 0.0)
    assert found.tolist()[:2] == [1024.0, 1024.0] and np.isnan([found[2], share[2]]).all()


def test_the_price_is_the_least_at_which_the_promised_share_would_have_had_enough() -> None:
    rng = np.random.default_rng(6)
    quantiles = np.sort(np.exp(rng.normal(14.0, 1.5, (3000, 6))), axis=1)
    used, procs = np.exp(rng.normal(14.5, 1.5, 3000)), rng.choice([1.0, 4.0, 64.0], 3000)
    needed = prices(used, quantiles, procs)

    def under(price: float) -> int:
        return int((recommended_kib(quantiles, procs, price)[0] < used).sum())

    for promise in (0.7, 0.8):
        price, left = price_of(needed, promise), int(AIM * (1 - promise) * 3000)
        assert under(price) <= left < under(0.99 * price)
    assert under(0.5 * price_of(needed, 0.7)) > under(2 * price_of(needed, 0.7))
