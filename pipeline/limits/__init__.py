"""Limits of runtimes and memory per submitter and program, and what the guard changes."""
