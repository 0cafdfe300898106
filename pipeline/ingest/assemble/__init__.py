"""Turns the rows of all sources into one sorted JOBS table, in bounded memory."""
