"""Fits every law to every group's observations and chooses the one that answers for the group."""

from pipeline.fit.stage import fit

__all__ = ["fit"]
