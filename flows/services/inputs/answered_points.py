"""What a model answers at points, as a table and as plain rows with the points' inputs beside them."""

from typing import Any

import pyarrow as pa

from pipeline.inputs import InputModel, predict


def answered_points(model: InputModel, points: pa.Table) -> tuple[pa.Table, list[dict[str, Any]]]:
    """ANSWERS, and for each point its inputs and its answer; InputError where the points cannot be read."""
    answers = predict(model, points)
    names = [one.name for one in model.declaration.inputs]
    asked = points.select(names).to_pylist()
    rows = [{"inputs": inputs, **answer} for inputs, answer in zip(asked, answers.to_pylist(), strict=True)]
    return answers, rows
