"""Replays of a log under a scheduling policy with given predictions: arrays in, arrays out."""

from pipeline.evaluate.replay.engine import Schedule, replay
from pipeline.evaluate.replay.metrics import ReplayMetrics, metrics, metrics_by_size, metrics_by_user
from pipeline.evaluate.replay.options import EASY_PLUS_PLUS, Correction, Policy, ReplayOptions
from pipeline.evaluate.replay.scores import Score, bounded_slowdown, scored
from pipeline.evaluate.replay.workload import Convention, Workload, workload, workload_of_jobs

__all__ = [
    "EASY_PLUS_PLUS", "Convention", "Correction", "Policy", "ReplayMetrics", "ReplayOptions", "Schedule", "Score",
    "Workload", "bounded_slowdown", "metrics", "metrics_by_size", "metrics_by_user", "replay", "scored", "workload",
    "workload_of_jobs",
]  # fmt: skip
