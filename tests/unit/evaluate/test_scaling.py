"""Splits, errors and medians of the evaluation of scaling, by hand."""

import numpy as np
import pytest

from pipeline.evaluate import evaluate_scaling
from pipeline.evaluate.scaling_errors import make_splits
from pipeline.tables import OBSERVATIONS

PROCS = {"a": [1, 2, 4, 8, 16, 64], "b": [1, 2, 4, 8], "c": [1, 2]}
APPLICATIONS = {"a": "solver", "b": "solver", "c": "other"}


def observed():
    rows = [(group, n) for group, sizes in PROCS.items() for n in reversed(sizes)]
    return OBSERVATIONS.build(
        group_id=[group for group, _ in rows],
        procs=[n for _, n in rows],
        n_jobs=[1] * len(rows),
        runtime_s_median=np.array([100.0 / n for _, n in rows]),
    )


def twice(asked):
    return 2 * 100.0 / asked.target_procs


def never(asked):
    return np.full(asked.target_procs.size, np.nan)


def half(asked):
    answer = 100.0 / asked.target_procs
    answer[asked.target_procs > 8] = np.nan
    return answer


def test_splits_give_what_their_names_say_and_ask_for_the_rest():
    splits, n_seen, n_kept = make_splits(observed(), APPLICATIONS)
    assert (n_seen, n_kept) == (3, 2)
    by_name = {split.name: split for split in splits}
    assert list(by_name) == ["3 smallest", "4 smallest", "5 smallest", "3 spread", "4 spread"]
    three = by_name["3 smallest"].asked
    assert three.given.offsets.tolist() == [0, 3, 6] and three.given.procs.tolist() == [1, 2, 4, 1, 2, 4]
    assert three.target_procs.tolist() == [8, 16, 64, 8] and three.target_series.tolist() == [0, 0, 0, 1]
    assert by_name["3 smallest"].is_near.tolist() == [True, True, False, True]
    assert three.application[0] == three.application[1]
    assert by_name["4 smallest"].asked.given.offsets.tolist() == [0, 4]
    assert by_name["3 spread"].asked.given.procs.tolist() == [1, 4, 64, 1, 4, 8]
    assert by_name["3 spread"].asked.target_procs.tolist() == [2, 8, 16, 2]


def test_medians_are_over_all_targets_and_an_open_one_is_infinitely_wrong():
    predictors = {"twice": twice, "never": never, "half": half}
    table, report = evaluate_scaling(observed(), APPLICATIONS, predictors)
    rows = {(row["predictor"], row["split"]): row for row in table.to_pylist()}
    assert rows["twice", "3 smallest"]["median_abs_error_pct"] == pytest.approx(100)
    assert rows["never", "3 smallest"]["median_abs_error_pct"] is None
    one = rows["half", "3 smallest"]
    assert (one["n_targets"], one["n_answered"], one["n_near"]) == (4, 2, 3)
    # Two of four are open, so the median lies between a number and infinity; of three near ones one is
    assert one["median_abs_error_pct"] is None
    assert one["near_median_abs_error_pct"] == pytest.approx(0)
    assert report.set_aside["too_few_sizes"].rows == 1 and report.kept.rows == 2


def test_without_a_series_long_enough_there_is_nothing_to_tell():
    table, report = evaluate_scaling(observed().slice(10), {"c": "other"}, {"twice": twice})
    assert table.num_rows == 0 and report.kept.rows == 0
