"""Runtimes of jobs before they run: one pass over a log, one answer at any age of what is known."""
