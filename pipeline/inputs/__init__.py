"""Runtime as a function of what a run was asked to do: RUNS, DECLARATION -> model; model, POINTS -> ANSWERS.

runs + declaration -> training_rows -> encoding -> folds -> methods (registry) -> conformal scores -> InputModel

learn(runs, declaration, settings)     -> InputModel (error estimate and Report inside)
predict(model, points)                 -> ANSWERS, one row a point, refused points with their reason
suggest(model, candidates, cost, rule) -> SUGGESTIONS, the next runs to make, best first
save(model, folder), load(folder)      -> model.json and arrays.parquet
held_runs(runs, declaration, settings) -> every run beside what the other folds predict (held_runs.py)
of_logs/                               -> models of a log's jobs, judged as of each submit
inferred_inputs(runs, names)           -> a type for every column that the caller declares no type of
"""

from pipeline.inputs.answers import predict
from pipeline.inputs.declaration import Declaration, DerivedInput, Input, InputType, ScalingPrior
from pipeline.inputs.learning import learn
from pipeline.inputs.model import Cost, CostUnit, ErrorEstimate, InputModel, SuggestRule
from pipeline.inputs.model_files import load, save
from pipeline.inputs.raw_inputs import inferred_inputs
from pipeline.inputs.suggestions import suggest

__all__ = [
    "Cost",
    "CostUnit",
    "Declaration",
    "DerivedInput",
    "ErrorEstimate",
    "Input",
    "InputModel",
    "InputType",
    "ScalingPrior",
    "SuggestRule",
    "inferred_inputs",
    "learn",
    "load",
    "predict",
    "save",
    "suggest",
]
