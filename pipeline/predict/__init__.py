"""Runtimes on processor counts, with intervals; how many processors pay; job-level estimates."""

from pipeline.predict.estimates import estimate
from pipeline.predict.predictions import groups_by_application, predict
from pipeline.predict.problem_sizes import predict_across
from pipeline.predict.scalability import scalability

__all__ = ["estimate", "groups_by_application", "predict", "predict_across", "scalability"]
