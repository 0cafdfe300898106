"""The choice of a template: by later jobs and series, kept from night to night, the same in any order of jobs."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.group import assign_groups, choose_template, describe_groups, templates, with_chosen
from pipeline.group.later_error import compared_jobs, later_error
from pipeline.group.templates import candidates
from pipeline.large_tables import newest_jobs
from pipeline.settings import GroupSettings
from pipeline.tables import JOBS
from tests.rows import jobs_of

AUTO = GroupSettings()


@pytest.fixture(autouse=True)
def few_later_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(templates, "MIN_LATER_JOBS", 20)


def log(n_jobs: int = 240, **changes: object) -> pa.Table:
    """Jobs of two users with three applications, whose runtimes only the application tells."""
    rng = np.random.default_rng(1)
    rows = []
    for place in range(n_jobs):
        what, procs = int(rng.integers(3)), int(rng.choice([1, 2, 4, 8]))
        runtime_s = 10.0 ** (2 + what) / procs * float(np.exp(rng.normal(0, 0.05)))
        submit_s = 1_000_000 * place
        rows.append({
            "user": f"u{place % 2}", "application": f"app{what}", "procs": procs, "runtime_s": runtime_s,
            "submit_s": submit_s, "start_s": submit_s, "end_s": submit_s + int(runtime_s),
            "requested_s": float(rng.integers(1, 40) * 3600), **changes,
        })  # fmt: skip
    return jobs_of(rows)


def chosen(table: pa.Table) -> str:
    (row,) = (row for row in table.to_pylist() if row["is_chosen"])
    return row["template"]


def test_the_column_that_tells_later_runtimes_is_chosen_and_one_that_splits_is_not() -> None:
    table, report = choose_template(log(), AUTO)
    assert chosen(table) == "user+application"
    rows = {row["template"]: row for row in table.to_pylist()}
    assert rows["user+application"]["error_later"] < 0.1 < rows["user"]["error_later"]
    assert rows["user+application"]["n_scaling_groups"] == 6 and rows["user+application"]["share_covered"] == 1
    assert rows["user+application+requested_s"]["share_covered"] < 0.9
    assert report.notes[0].startswith("jobs are grouped by user+application")


def test_a_list_in_the_configuration_wins() -> None:
    table, _ = choose_template(log(), GroupSettings(template=("user", "requested_s")), "user")
    assert chosen(table) == "user+requested_s" and table.num_rows > 2


def test_the_newest_jobs_of_a_long_log_are_compared_and_the_others_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(templates, "COMPARE_JOBS", 120)
    jobs, settings = log(), GroupSettings()
    table, report = choose_template(jobs, settings)
    part, older = newest_jobs(jobs, jobs.column_names, 120)
    assert 120 <= part.num_rows < jobs.num_rows
    assert table.equals(choose_template(part, settings)[0])
    assert report.set_aside == {"before_newest": older} and report.check().seen.rows == jobs.num_rows


def test_the_previous_choice_stays_unless_another_wins_clearly() -> None:
    both = log(queue="batch")
    near, far = (choose_template(both, AUTO, name)[0] for name in ("user+application+queue", "user"))
    assert chosen(near) == "user+application+queue" and chosen(far) == "user+application"
    assert [row["template"] for row in far.to_pylist() if row["is_previous"]] == ["user"]
    assert "by more than 5%" in next(row["why"] for row in far.to_pylist() if row["is_chosen"])


def test_a_log_without_users_or_applications_has_other_candidates() -> None:
    jobs = log(user=None, application=None, account="physics", queue="batch")
    assert candidates(jobs)[0] == ("account", "queue")
    assert {name for one in candidates(jobs) for name in one} == {"account", "queue", "requested_s"}


@pytest.mark.parametrize("n_jobs", [0, 3])
def test_a_log_too_short_to_compare_has_the_default(n_jobs: int) -> None:
    jobs = log(3).slice(0, n_jobs)
    table, _ = choose_template(jobs, AUTO)
    assert "fewer than 20 later jobs" in next(row["why"] for row in table.to_pylist() if row["is_chosen"])
    assert set(with_chosen(AUTO, table).columns) <= {"user", "application", "requested_memory"}


@pytest.mark.parametrize("per", ["node", "processor"])
def test_the_same_memory_typed_at_every_size_is_one_group(per: str) -> None:
    """--mem=2G on 4 to 64 processors, and a cluster's default per processor that reads as --mem."""
    rows = [
        {
            "procs": n, "requested_mem_kib": 2.0**21 / n if per == "node" else 2.0**20,
            "requested_memory": "2GiB/node" if per == "node" else f"{n}GiB/node",
        }
        for n in (4, 8, 16, 32, 64)
    ]  # fmt: skip
    table, _ = choose_template(jobs_of(rows), GroupSettings())
    concrete = with_chosen(GroupSettings(), table)
    groups, _ = describe_groups(assign_groups(jobs_of(rows), concrete)[0], concrete)
    assert groups.column("n_sizes").to_pylist() == [5]


def test_the_error_by_hand() -> None:
    """Of ten equal spaced jobs the last six are predicted; one unseen size by the group's two others."""
    runtimes = [100.0] * 9 + [100.0 * np.e]
    jobs = jobs_of([
        {"submit_s": 1000 * i, "start_s": None, "end_s": 1000 * i + 300, "runtime_s": t, "procs": 8 if i == 9 else 4}
        for i, t in enumerate(runtimes)
    ])  # fmt: skip
    error, share, n_later = later_error(compared_jobs(jobs), np.zeros(10, np.int64))
    assert (error, share, n_later) == (pytest.approx(1 / 6), 1.0, 6)


@settings(max_examples=20, deadline=None)
@given(st.randoms(use_true_random=False), st.integers(0, 120))
def test_any_order_of_jobs_gives_the_same_table(random, n_jobs: int) -> None:
    jobs = log(120).slice(0, n_jobs)
    order = list(range(n_jobs))
    random.shuffle(order)
    shuffled = JOBS.check(jobs.take(pa.array(order, pa.int64())))
    assert choose_template(shuffled, AUTO)[0].to_pylist() == choose_template(jobs, AUTO)[0].to_pylist()
