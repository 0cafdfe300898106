"""Replays of logs whose jobs may start on several processor counts."""
