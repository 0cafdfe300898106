"""Replays of logs under other policies and estimates."""
