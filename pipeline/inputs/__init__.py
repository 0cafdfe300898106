"""Runtime as a function of what a run was asked to do: RUNS, DECLARATION -> model; model, POINTS -> ANSWERS.

    runs + declaration -> training_rows -> encoding -> folds -> methods (registry) -> conformal scores -> InputModel

    learn(runs, declaration, settings)     -> InputModel (error estimate and Report inside)
    predict(model, points)                 -> ANSWERS, one row a point, refused points with their reason
    suggest(model, candidates, cost, rule) -> SUGGESTIONS, the next runs to make, best first
    save(model, folder), load(folder)      -> model.json and arrays.parquet
    inferred_inputs(runs, names)           -> a type for every column that the caller declares no type of
"""
