"""What `walltime advise` does: limits recommended from a log, what they keep, and whom they would have harmed."""
