"""Each statistic and its interval by hand, what matches what, and that nothing is seen before it is known."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from scipy.stats import linregress, t

from pipeline.estimate.history import ATTRIBUTES, History, history
from pipeline.estimate.score import QUANTILES
from pipeline.estimate.templates.smith import SMITH_DEFAULT, Sight, Template, predict, smith
from pipeline.tables import JOBS

DAY_S = 86_400.0
SHARES = np.array(QUANTILES)


def made(
    runtime_s: list[float], *, submit_s: list[float] | None = None, user: list[int] | None = None, **columns: object
) -> History:
    """A History of jobs that follow one another, each submitted when the last has ended."""
    run = np.array(runtime_s, float)
    n = len(run)
    submitted = np.concatenate([[0], np.cumsum(run)])[:n] if submit_s is None else np.array(submit_s, float)
    codes = {name: np.full(n, -1, np.int64) for name in (*ATTRIBUTES, "what")}
    codes["user"] = codes["who"] = np.zeros(n, np.int64) if user is None else np.array(user, np.int64)
    plain = History(
        row=np.arange(n), submit_s=submitted, start_s=submitted, end_s=submitted + run, runtime_s=run,
        requested_s=np.full(n, np.nan),
        requested_mem_kib=np.full(n, np.nan), gpus=np.full(n, np.nan), procs=np.ones(n),
        local_s=submitted.astype(np.int64),
        is_lower_bound=np.zeros(n, bool), is_learnt=np.ones(n, bool), codes=codes,
    )  # fmt: skip
    return replace(plain, **{name: np.array(values) for name, values in columns.items()})


def last(h: History, **template: object) -> tuple[np.ndarray, float]:
    """The last job's quantiles and width."""
    quantiles_s, width_s = predict(Sight(h), Template(**template))
    return quantiles_s[-1], width_s[-1]


def test_mean_and_its_t_interval() -> None:
    got, width_s = last(made([10, 20, 40, 30, 99]))
    error = np.std([10, 20, 40, 30], ddof=1) * np.sqrt(1 + 1 / 4)
    assert got == pytest.approx(np.maximum(25 + t.ppf(SHARES, 3) * error, 0))
    assert width_s == pytest.approx(2 * t.ppf(0.95, 3) * error)


def test_mean_of_the_most_recent() -> None:
    assert last(made([1000, 10, 20, 99]), max_count=2)[0][1] == pytest.approx(15)


def test_a_job_s_end_is_forgotten_at_its_age() -> None:
    h = made([50, 10, 20, 99], submit_s=[0, 5 * DAY_S, 6 * DAY_S, 7 * DAY_S])
    assert last(h, max_age_days=3)[0][1] == pytest.approx(15)
    assert last(h)[0][1] == pytest.approx(80 / 3)


def test_median_answers_with_the_window_s_own_quantiles() -> None:
    runs = [7.0, 1, 3, 9, 5, 2, 8, 4, 6]
    got, width_s = last(made([500, *runs, 99]), max_count=9, statistic="median")
    assert got[:4] == pytest.approx([1, 5, 8, 9])
    error = np.std(runs, ddof=1) * np.sqrt(1 + np.pi / 2 / 9)
    assert width_s == pytest.approx(2 * t.ppf(0.95, 8) * error)
    assert got[4:] == pytest.approx(np.maximum(9, 5 + t.ppf([0.95, 0.99], 8) * error))


def test_last_k_is_as_sure_as_it_was_right_before() -> None:
    got, width_s = last(made([10, 20, 40, 30, 99]), statistic="last", last_k=2)
    error = np.sqrt(((40 - 15) ** 2 + (30 - 30) ** 2) / 2)
    assert got == pytest.approx(np.maximum(35 + t.ppf(SHARES, 2) * error, 0))
    assert width_s == pytest.approx(2 * t.ppf(0.95, 2) * error)


@pytest.mark.parametrize(("statistic", "of"), [("linear", lambda n: n), ("inverse", lambda n: 1 / n), ("log", np.log)])
def test_regression_and_its_interval(statistic: str, of: object) -> None:
    procs, runs = np.array([1.0, 2, 4, 8, 16]), np.array([900.0, 510, 300, 130, 90])
    got, width_s = last(made([*runs, 1], procs=[*procs, 3]), statistic=statistic)
    x, at = of(procs), of(3.0)
    line = linregress(x, runs)
    off = runs - line.intercept - line.slope * x
    error = np.sqrt((off**2).sum() / 3 * (1 + 1 / 5 + (at - x.mean()) ** 2 / ((x - x.mean()) ** 2).sum()))
    value = line.intercept + line.slope * at
    assert got == pytest.approx(np.maximum(value + t.ppf(SHARES, 3) * error, 0))
    assert width_s == pytest.approx(2 * t.ppf(0.95, 3) * error)


def test_a_line_below_zero_or_through_one_size_has_no_answer() -> None:
    assert np.isnan(last(made([100, 50, 10, 1], procs=[1, 2, 3, 99]), statistic="linear")[1])
    assert np.isnan(last(made([100, 50, 10, 1], procs=[2, 2, 2, 2]), statistic="linear")[1])


def test_relative_to_the_request() -> None:
    h = made([50, 30, 1], requested_s=[100.0, 100.0, 1000.0])
    assert last(h, is_relative=True)[0][1] == pytest.approx(400)
    without = made([50, 30, 7, 1], requested_s=[100.0, 100.0, np.nan, 1000.0])
    assert last(without, is_relative=True)[0][1] == pytest.approx(400)
    assert np.isnan(last(made([50, 30, 1], requested_s=[100.0, 100.0, np.nan]), is_relative=True)[1])


def test_equal_runtimes_are_known_to_the_second_and_no_better() -> None:
    _, width_s = last(made([60, 60, 60, 1]))
    assert width_s == pytest.approx(2 * t.ppf(0.95, 2) / np.sqrt(12))


@pytest.mark.parametrize(
    ("procs_range", "width", "others", "alike"),
    [("linear", 1.0, 9.0, 8.0), ("linear", 4.0, 9.0, 5.0), ("log2", 1.0, 16.0, 15.0), ("log2", 2.0, 16.0, 4.0)],
)
def test_ranges_of_processors(procs_range: str, width: float, others: float, alike: float) -> None:
    template = {"procs_range": procs_range, "procs_width": width}
    assert last(made([10, 20, 1], procs=[8, 8, alike]), **template)[0][1] == pytest.approx(15)
    assert np.isnan(last(made([10, 20, 1], procs=[8, 8, others]), **template)[1])


def test_unknown_never_matches_unknown() -> None:
    assert np.isnan(last(made([10, 20, 30, 1], user=[-1, -1, -1, -1]), attributes=("user",))[1])
    assert np.isnan(last(made([10, 20, 30, 1]), attributes=("user", "requested_mem_kib"))[1])


def test_hours_and_weekdays_are_those_of_the_site_s_clock() -> None:
    h = made([10, 20, 90, 1], local_s=[3600, 3700, 7200, 3600 + 7 * 86_400])
    assert last(h, attributes=("hour",))[0][1] == pytest.approx(15)
    assert last(h, attributes=("hour", "weekday"))[0][1] == pytest.approx(15)


@pytest.mark.parametrize("statistic", ["mean", "median", "last", "linear"])
@pytest.mark.parametrize("max_count", [3, 5])
@pytest.mark.parametrize("killed_s", [1.0, 12.0, 25.0, 70.0])
def test_a_job_killed_at_its_limit_never_lowers_an_estimate(statistic: str, max_count: int, killed_s: float) -> None:
    runs, procs = [40.0, 10, 30, 20], [1.0, 2, 4, 3]
    template = {"statistic": statistic, "max_count": max_count}
    before = last(made([*runs, 1], procs=[*procs, 3]), **template)[0][1]
    is_bound = [False] * 4 + [True, False]
    after = last(made([*runs, killed_s, 1], procs=[*procs, 3, 3], is_lower_bound=is_bound), **template)[0][1]
    assert after >= before
    assert after > before or killed_s < 40


def test_the_narrowest_interval_answers_and_the_first_of_equal_ones() -> None:
    h = made([100, 900, 110, 890, 105, 1], user=[0, 1, 0, 1, 0, 0])
    wide, narrow = Template(), Template(attributes=("user",))
    assert smith(h, [wide, narrow])[-1] == pytest.approx(predict(Sight(h), narrow)[0][-1])
    again = Template(attributes=("user",), max_count=1000)
    assert smith(h, [again, narrow])[-1] == pytest.approx(smith(h, [narrow, again])[-1])


def test_the_estimate_is_at_most_the_request() -> None:
    got = smith(made([100, 110, 120, 1], requested_s=[500.0, 500.0, 500.0, 60.0]), [Template()])[-1]
    assert got[1] == 60 and got[3] > 60


def random_history(seed: int, n: int = 60) -> History:
    rng = np.random.default_rng(seed)
    return made(
        list(rng.integers(1, 500, n).astype(float)), submit_s=list(np.sort(rng.integers(0, 3000, n)).astype(float)),
        user=list(rng.integers(-1, 3, n)), procs=rng.integers(1, 17, n).astype(float),
        requested_s=np.where(rng.random(n) < 0.2, np.nan, rng.choice([60.0, 300.0, 600.0], n)),
        is_lower_bound=rng.random(n) < 0.2,
    )  # fmt: skip


VARIED = (
    *SMITH_DEFAULT, Template(max_age_days=0.005), Template(statistic="last", max_count=4),
    Template(statistic="median", max_count=4, is_relative=True), Template(statistic="log", procs_range="any"),
)  # fmt: skip


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), at=st.integers(0, 59))
def test_what_had_not_ended_changes_nothing(seed: int, at: int) -> None:
    h = random_history(seed)
    now_s = h.submit_s[at]
    is_open = h.end_s > now_s
    other = np.where(is_open, h.runtime_s + np.random.default_rng(seed + 1).integers(0, 900, len(h)), h.runtime_s)
    end_s = np.maximum(h.submit_s + other, h.end_s)
    changed = replace(h, runtime_s=other, end_s=end_s, is_lower_bound=h.is_lower_bound ^ is_open)
    for template in VARIED:
        told, changed_told = predict(Sight(h), template)[0], predict(Sight(changed), template)[0]
        seen = h.submit_s <= now_s
        assert np.array_equal(told[seen], changed_told[seen], equal_nan=True)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_a_window_is_what_a_plain_loop_makes_of_it(seed: int) -> None:
    h = random_history(seed)
    h = replace(h, is_lower_bound=np.zeros(len(h), bool))
    told = predict(Sight(h), Template(attributes=("user",), max_count=5, statistic="median"))[0]
    for i in range(len(h)):
        before = [j for j in h.by_end[: h.ended[i]] if h.codes["user"][j] == h.codes["user"][i]][-5:]
        expected = np.median(h.runtime_s[before]) if len(before) > 1 and h.codes["user"][i] >= 0 else np.nan
        assert told[i, 1] == pytest.approx(expected, nan_ok=True)


def test_a_job_that_ends_in_the_second_of_its_submit_does_not_see_itself() -> None:
    h = made([5, 7, 50], submit_s=[0, 10, 20])
    h = replace(h, end_s=np.array([5.0, 17, 20]))
    assert last(h)[0][1] == pytest.approx(6)


def test_the_order_of_rows_plays_no_part() -> None:
    rng = np.random.default_rng(5)
    n = 200
    submit_s = np.sort(rng.choice(100_000, n, replace=False))
    columns = {
        "site": ["s"] * n, "job_id": [f"{i:04d}" for i in range(n)], "restart": [0] * n, "source_file": ["f"] * n,
        "source_line": list(range(1, n + 1)), "submit_s": list(submit_s), "start_s": list(submit_s),
        "user": [("\x1b[31mrm -rf", "a\nb", "\u202eevil", None)[k] for k in rng.integers(0, 4, n)],
        "runtime_s": list(rng.integers(1, 900, n).astype(float)), "procs": list(rng.integers(1, 9, n)),
        "requested_s": [600.0] * n,
    }  # fmt: skip
    jobs = JOBS.build(**columns)
    order = rng.permutation(n)
    plain, mixed = history(jobs), history(jobs.take(order))
    told = np.empty((n, 6))
    told[order[mixed.row]] = smith(mixed, SMITH_DEFAULT)
    assert np.array_equal(told[plain.row], smith(plain, SMITH_DEFAULT), equal_nan=True)


@pytest.mark.parametrize(
    "template",
    [
        {"attributes": ("\x1b[2J",)}, {"attributes": ("job_name",)}, {"procs_width": 0}, {"max_count": 1},
        {"statistic": "median"}, {"statistic": "median", "max_count": 100_000}, {"max_age_days": -1},
        {"statistic": "last", "last_k": 5, "max_count": 5}, {"statistic": "mode"}, {"strange": 1},
    ],
)  # fmt: skip
def test_an_impossible_template_is_refused(template: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Template(**template)


def test_attributes_have_one_order() -> None:
    assert Template(attributes=("queue", "user", "user")) == Template(attributes=("user", "queue"))


def test_an_empty_log_has_no_answers() -> None:
    assert smith(made([]), SMITH_DEFAULT).shape == (0, 6)
