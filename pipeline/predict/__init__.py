"""Runtimes on processor counts, with intervals; how many processors pay; job-level estimates."""

from pipeline.predict.estimates import estimate
from pipeline.predict.predictions import predict
from pipeline.predict.scalability import scalability
from pipeline.predict.sizes import predict_across

__all__ = ["estimate", "predict", "predict_across", "scalability"]
