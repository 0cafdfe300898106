"""A log learnt from a checkpoint of an earlier night gives the State of the whole log, to the bit."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.estimate import checkpoints
from pipeline.estimate.checkpoints import Checkpoint, LogJobs, usable
from pipeline.estimate.history import history
from pipeline.estimate.stage import learn_from_checkpoints, learn_state
from pipeline.estimate.state import ids_of
from pipeline.estimate.state_table import arrays_in, arrays_of
from pipeline.estimate.walltime import learn
from pipeline.settings import SiteSettings
from tests.unit.estimate.states import DAY_S, SETTINGS, busy_log, same_bits
from tests.unit.estimate.test_state import as_of, differing

SITE = SiteSettings(name="here", timezone="Europe/Stockholm")


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "CHUNK_JOBS", 151)


def night(jobs: pa.Table, earlier: list[Checkpoint]) -> tuple[pa.Table, list[Checkpoint]]:
    """The State of a night and the checkpoints it leaves; State and report must be those of a fresh start."""
    table, report, kept = learn_from_checkpoints(jobs, SITE, SETTINGS, "", earlier, makes_checkpoints=True)
    whole, whole_report = learn_state(jobs, SITE, SETTINGS)
    assert not differing(table, whole)
    assert report == whole_report
    return table, kept


def start_s(jobs: pa.Table, earlier: list[Checkpoint]) -> float:
    """The time of the checkpoint from which a log would be learnt; minus infinity for none."""
    log = LogJobs.of(jobs, SITE.timezone, with_hashes=True)
    found = usable(log, earlier, log.newest_s())
    return found.as_of_s if found else -np.inf


@settings(max_examples=4, deadline=None)
@given(st.integers(0, 3), st.lists(st.floats(0.3, 0.99), min_size=1, max_size=3))
def test_nights_that_go_on_from_checkpoints_give_the_state_of_the_whole_log(seed: int, shares: list[float]) -> None:
    jobs = busy_log(seed=seed)
    submits, kept = jobs.column("submit_s").to_numpy(), list[Checkpoint]()
    for share in sorted(shares):
        log = as_of(jobs, float(submits[0] + share * (submits[-1] - submits[0])))
        _, kept = night(log, kept)
        assert kept
    assert start_s(jobs, kept) >= submits[0]
    night(jobs, kept)


def changed(jobs: pa.Table, name: str, row: int, value: object) -> pa.Table:
    rows = jobs.to_pylist()
    rows[row][name] = value
    return pa.Table.from_pylist(rows, schema=jobs.schema)


@pytest.mark.parametrize(
    ("name", "value"),
    [("user", "somebody-else"), ("runtime_s", 17.0), ("job_id", "other"), ("requested_s", 60.0), ("flag", "duplicate"),
     ("is_lower_bound", True), ("queue", "another"), ("user_group", "g"), ("application", "b"), ("procs", 3)],
)  # fmt: skip
def test_a_changed_record_is_learnt_anew_from_a_checkpoint_before_it(name: str, value: object) -> None:
    jobs = busy_log(seed=1)
    submits = jobs.column("submit_s").to_numpy()
    earlier = as_of(jobs, float(submits[-1] - 2 * DAY_S))
    _, kept = night(earlier, [])
    assert len(kept) > 2
    usual_s, row = start_s(jobs, kept), int(np.searchsorted(submits, kept[1].as_of_s + 60.0))
    while jobs.column("runtime_s")[row].as_py() is None or jobs.column("end_s")[row].as_py() > kept[-1].as_of_s:
        row += 1
    if name == "procs":
        jobs = changed(jobs, "requested_procs", row, None)
    other = changed(jobs, name, row, value)
    assert start_s(other, kept) < usual_s == kept[-1].as_of_s
    night(other, kept)


def test_a_job_that_came_late_is_learnt_from_a_checkpoint_before_it() -> None:
    jobs = busy_log(seed=2)
    submits = jobs.column("submit_s").to_numpy()
    missing = int(np.searchsorted(submits, submits[-1] - 3 * DAY_S))
    without = jobs.filter(pa.array(np.arange(jobs.num_rows) != missing))
    _, kept = night(without, [])
    assert submits[missing] > start_s(jobs, kept) > submits[0]
    night(jobs, kept)


def test_a_damaged_checkpoint_is_passed_over() -> None:
    jobs = busy_log(seed=2)
    _, kept = night(jobs, [])
    damaged = [Checkpoint(one.as_of_s, one.digest, lambda: None) for one in kept[-1:]]
    assert start_s(jobs, [*kept[:-1], *damaged]) == kept[-2].as_of_s
    night(jobs, [*kept[:-1], *damaged])


def test_every_age_keeps_a_checkpoint_over_many_nights() -> None:
    first = [Checkpoint(float(age), "", lambda: None) for age in (0.0,)]
    for day in range(1, 100):
        newest_s = day * DAY_S
        first = checkpoints.kept([*first, Checkpoint(newest_s - DAY_S, "", lambda: None)], newest_s)
        assert len(first) <= len(checkpoints.AGES_DAYS) + 1
    ages = [(99 * DAY_S - one.as_of_s) / DAY_S for one in first]
    assert min(ages) == 1 and 16 <= max(ages) < 64 and len(ages) >= 5


def test_no_job_leaves_no_checkpoint() -> None:
    _, kept = night(busy_log().slice(0, 0), [])
    assert kept == []


@pytest.mark.parametrize("chunk_jobs", [1, 97, 500_000])
def test_a_log_in_chunks_gives_what_one_pass_gives(monkeypatch: pytest.MonkeyPatch, chunk_jobs: int) -> None:
    monkeypatch.setattr(checkpoints, "CHUNK_JOBS", chunk_jobs)
    jobs = busy_log(seed=3).slice(0, 120 if chunk_jobs == 1 else 1_500)
    found = arrays_in(learn_state(jobs, SITE, SETTINGS)[0])
    past = history(jobs, SITE.timezone)
    until_s = found["as_of_s"][0]
    whole = arrays_of(learn(past, SETTINGS, until_s, ids=ids_of(jobs, past)))
    for name, values in whole.items():
        if not name.startswith("site."):
            is_text = values.dtype == object
            assert found[name].tolist() == values.tolist() if is_text else same_bits(found[name], values), name
