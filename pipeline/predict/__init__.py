"""Runtimes on processor counts, with intervals; how many processors pay."""

from pipeline.predict.later import later
from pipeline.predict.predictions import groups_by_application, predict
from pipeline.predict.problem_sizes import predict_across
from pipeline.predict.scalability import scalability

__all__ = ["groups_by_application", "later", "predict", "predict_across", "scalability"]
