"""Models of a log's jobs over the inputs that their texts name, learnt and judged as of each submit.

SubmittedRuns -> application_runs -> as_of (estimates at each submit, models that beat the rivals) -> model_tables
PREDICTIONS -> group_predictions (rows that a published model answers)
"""
