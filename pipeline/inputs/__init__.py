"""Runtime as a function of what a run was asked to do: RUNS, DECLARATION -> model; model, POINTS -> ANSWERS.

runs + declaration -> encoding (usable runs, folds) -> learning (processes, trees) -> validation (errors, intervals,
tests outside the runs) -> InputModel

learn(runs, declaration, rules)        -> InputModel (error estimate and Report inside)
predict(model, points)                 -> ANSWERS, one row a point, refused points with their reason
suggest(model, candidates, cost)       -> SUGGESTIONS, the next runs to make, best first
save(model, folder), load(folder)      -> model.json and arrays.parquet
log_models                             -> models of a log's jobs, judged as of each submit, and published
inferred_inputs(runs, names)           -> a type for every column that the caller declares no type of
"""

from pipeline.inputs.answers import Cost, CostUnit, predict, suggest
from pipeline.inputs.declaration import Declaration, DerivedInput, Input, InputType, LearnRules
from pipeline.inputs.encoding import inferred_inputs
from pipeline.inputs.learning import InputModel, learn, load, save
from pipeline.inputs.validation import ErrorEstimate

__all__ = [
    "Cost", "CostUnit", "Declaration", "DerivedInput", "ErrorEstimate", "Input", "InputModel", "InputType",
    "LearnRules", "inferred_inputs", "learn", "load", "predict", "save", "suggest",
]  # fmt: skip
