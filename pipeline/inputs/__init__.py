"""Runtime as a function of what a run was asked to do: RUNS, DECLARATION -> model; model, POINTS -> ANSWERS.

runs + declaration -> learning (rows, folds) -> encoding -> methods -> validation (scores, tests outside) -> InputModel

learn(runs, declaration, rules)        -> InputModel (error estimate and Report inside)
predict(model, points)                 -> ANSWERS, one row a point, refused points with their reason
suggest(model, candidates, cost)       -> SUGGESTIONS, the next runs to make, best first
save(model, folder), load(folder)      -> model.json and arrays.parquet
log_estimates, log_models              -> models of a log's jobs, judged as of each submit, and published
inferred_inputs(runs, names)           -> a type for every column that the caller declares no type of

A new method is a file like network.py and a name in methods.py.
"""

from pipeline.inputs.answers import predict
from pipeline.inputs.declaration import Declaration, DerivedInput, Input, InputType, LearnRules
from pipeline.inputs.encoding import inferred_inputs
from pipeline.inputs.input_model import Cost, CostUnit, InputModel, load, save
from pipeline.inputs.learning import learn
from pipeline.inputs.suggestions import suggest
from pipeline.inputs.validation import ErrorEstimate

__all__ = [
    "Cost", "CostUnit", "Declaration", "DerivedInput", "ErrorEstimate", "Input", "InputModel", "InputType",
    "LearnRules", "inferred_inputs", "learn", "load", "predict", "save", "suggest",
]  # fmt: skip
