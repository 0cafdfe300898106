"""Least relative squares of every law over whole batches of series."""
