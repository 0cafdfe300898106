"""Writes the published estimates for schedulers, spreadsheets and databases."""
