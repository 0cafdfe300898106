"""Figures of a folder of published tables, as OpenMetrics text."""
