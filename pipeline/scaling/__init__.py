"""Observations of runtimes over processor counts -> fitted laws, predictions with intervals, and advice.

solvers/   least squares of every law: exact where the law allows, ADEPT's search to compare
screens/   before the fits: sizes that the others contradict, and patterns that no smooth law has
average/   the model average over laws, compiled: posterior over shapes, mixtures and their quantiles
later/     intervals calibrated on past windows of the log
"""
