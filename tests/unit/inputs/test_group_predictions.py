"""Rows of PREDICTIONS by models over inputs: which rows change, and what they then hold."""

import json

import numpy as np
import pyarrow as pa

from pipeline.config_file import parse_settings
from pipeline.estimate.estimate_rules import ESTIMATE_RULES
from pipeline.estimate.registry import submitted_runs
from pipeline.inputs import LearnRules
from pipeline.inputs.log_estimates import LogModelRules
from pipeline.inputs.log_models import publish_models, with_model_rows
from pipeline.tables import PREDICTIONS
from tests.simulation.named_inputs import law_s
from tests.unit.inputs.test_of_logs import RULE, past

SETTINGS = parse_settings({"inputs": {"rules": [RULE]}}, "test")
RULES = LogModelRules(learning=LearnRules(method="gp", folds=3))
RUNS = submitted_runs(past(), ESTIMATE_RULES)
MODELS = publish_models(RUNS, SETTINGS.inputs, "here", "r", RULES)[0]


def rows_of(rows: dict[str, list[object]]) -> pa.Table:
    """PREDICTIONS of some groups and counts, by law."""
    n = len(rows["group_id"])
    given = {"runtime_s": [1.0] * n, "runtime_s_lo80": [0.5] * n, "runtime_s_hi80": [2.0] * n, "near_share": [0.4] * n,
             "method": ["average"] * n, "is_extrapolated": [False] * n, "run_id": ["r"] * n}  # fmt: skip
    return PREDICTIONS.build(**given | rows)


def labels() -> tuple[list[str | None], dict[str, dict[str, str]]]:
    """A group for each job by user and inputs, as a template with job names makes them, and each group's inputs."""
    names = [
        None if code < 0 else f"{RUNS.users[user]} {RUNS.applications[application]} {RUNS.inputs_texts[code]}"
        for code, user, application in zip(RUNS.inputs, RUNS.user, RUNS.application, strict=True)
    ]
    texts = {name: json.loads(RUNS.inputs_texts[code]) for name, code in zip(names, RUNS.inputs, strict=True) if name}
    return names, texts


def test_rows_without_a_track_record_are_answered_by_the_model_and_confirmed_ones_stay() -> None:
    groups, texts = labels()
    name = next(one for one in sorted(texts) if one.startswith("carl lattice"))
    before = rows_of({"group_id": [name] * 3, "procs": [1, 4, 16], "reliability": ["no_record", "ok", "far+no_record"]})
    table, n_changed = with_model_rows(before, MODELS, RUNS, pa.chunked_array([groups]), SETTINGS.inputs)
    first, second, third = table.to_pylist()
    assert n_changed == 2
    assert second == before.to_pylist()[1]
    n, steps = (int(texts[name][key]) for key in ("n", "steps"))
    for row in (first, third):
        assert row["method"] == "inputs" and row["reliability"] == "from_inputs"
        assert row["near_share"] is None and "inputs n, steps" in row["advice"]
        assert abs(row["runtime_s"] / law_s("lattice", n, steps, row["procs"]) - 1) < 0.15
        ends = [row[f"runtime_s_{end}"] for end in ("lo95", "lo80")] + [row["runtime_s"]]
        ends += [row[f"runtime_s_{end}"] for end in ("hi80", "hi95")]
        assert ends == sorted(ends)
    assert first["speedup"] == 1.0
    assert third["efficiency"] == third["speedup"] / 16 == first["runtime_s"] / third["runtime_s"] / 16


def test_groups_of_different_inputs_of_no_model_and_refused_counts_keep_their_rows() -> None:
    groups, texts = labels()
    name = next(one for one in sorted(texts) if one.startswith("ada heat"))
    mixed = ["mixed" if one and one.startswith("carl") else "shell" if one is None else one for one in groups]
    ids = ["mixed", "shell", name, "gone"]
    before = rows_of({"group_id": ids, "procs": [4, 4, 100_000, 4], "reliability": ["no_record"] * 4})
    table, n_changed = with_model_rows(before, MODELS, RUNS, pa.chunked_array([mixed]), SETTINGS.inputs)
    assert n_changed == 0
    assert table.to_pylist() == before.to_pylist()


def test_where_every_model_lost_nothing_changes() -> None:
    groups, texts = labels()
    lost = MODELS.set_column(
        MODELS.column_names.index("is_published"), "is_published", pa.array(np.zeros(MODELS.num_rows, bool))
    )
    before = rows_of({"group_id": sorted(texts)[:1], "procs": [4], "reliability": ["no_record"]})
    assert with_model_rows(before, lost, RUNS, pa.chunked_array([groups]), SETTINGS.inputs) == (before, 0)
