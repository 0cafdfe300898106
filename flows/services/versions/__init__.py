"""Versions of the published tables: listed, compared, and made again."""
