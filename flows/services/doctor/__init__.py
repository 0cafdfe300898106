"""Checks a folder of published tables and says what to do about each finding."""
