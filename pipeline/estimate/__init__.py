"""Job-level estimates: at a job's submit, from jobs that had ended by then, how long it will run."""
