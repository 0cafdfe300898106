"""Limits of runtimes and memory per submitter and program."""
