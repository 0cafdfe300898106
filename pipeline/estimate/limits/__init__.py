"""Recommended limits: runtimes that a stated share of jobs does not exceed, each as of the job's submit."""
