"""The nightly run: its preparation, its work folder, its publication."""
