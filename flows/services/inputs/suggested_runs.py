"""What `walltime suggest` finds: the next runs to make, with their inputs."""

from pathlib import Path
from typing import Any

from flows.services.inputs.candidates import candidates_for
from pipeline.core.errors import InputError
from pipeline.core.text import printable
from pipeline.inputs import Cost, InputModel, SuggestRule, suggest


def suggested_runs(
    model: InputModel, folder: Path, candidates: Path | None, cost: Cost, rule: SuggestRule
) -> dict[str, Any]:
    """The runs in plain values, how many candidates there were, and what they cost; InputError without candidates."""
    if cost.budget is not None and not 0 < cost.budget < float("inf"):
        raise InputError("--budget", f"{cost.budget:g}", "a positive number")
    possible = candidates_for(model, folder, candidates)
    if not possible.num_rows:
        found = "no combination of the inputs' values that has not run"
        raise InputError(printable(str(folder)), found, "candidates", "give --candidates FILE.csv")
    table = suggest(model, possible, cost, rule)
    names = [one.name for one in model.declaration.inputs]
    inputs = possible.select(names).take(table.column("candidate")).to_pylist()
    rows = [{"inputs": own, **row} for own, row in zip(inputs, table.to_pylist(), strict=True)]
    return {"unit": str(cost.unit), "budget": cost.budget, "rule": str(rule), "n_candidates": possible.num_rows,
            "runs": rows}  # fmt: skip
