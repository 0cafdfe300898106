"""Predictors that read a series themselves, by name; a fit's curves are in pipeline.fit.predictors. One line each."""

from pipeline.core.asked import Predictor

PREDICTORS: dict[str, Predictor] = {}
