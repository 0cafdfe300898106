"""Logs and tables of jobs: ingest, inspect, clean, quarantine."""
