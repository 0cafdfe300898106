"""Answers to jobs from the published State."""
