"""The Standard Workload Format (SWF)."""
