"""What `walltime suggest` finds: the next runs to make, with their inputs."""

from pathlib import Path
from typing import Any

from flows.services.inputs.candidates import candidates_for
from pipeline.core.errors import InputError
from pipeline.inputs import Cost, InputModel, SuggestRule, suggest


def suggested_runs(
    model: InputModel, folder: Path, candidates: Path | None, cost: Cost, rule: SuggestRule
) -> dict[str, Any]:
    """The runs in plain values, how many candidates there were, and what they cost.

    `error_pct` is the model's error on held runs. Without `candidates` there may be no combination left to run; a file
    without a row is an InputError.
    """
    if cost.budget is not None and not 0 < cost.budget < float("inf"):
        raise InputError("--budget", f"{cost.budget:g}", "a positive number")
    possible = candidates_for(model, folder, candidates)
    table = suggest(model, possible, cost, rule)
    names = [one.name for one in model.declaration.inputs]
    inputs = possible.select(names).take(table.column("candidate")).to_pylist()
    rows = [{"inputs": own, **row} for own, row in zip(inputs, table.to_pylist(), strict=True)]
    return {"unit": str(cost.unit), "budget": cost.budget, "rule": str(rule), "n_candidates": possible.num_rows,
            "error_pct": model.error.mean_pct, "runs": rows}  # fmt: skip
