"""Scalability series from CSV files of measured runtimes."""
