"""Observations of runtimes over processor counts -> fitted laws, predictions with intervals, and advice.

series  the sizes of every group, and the noise of its runs
fit, downey  least squares of every law: one search, and Downey exactly; adept: ADEPT to compare
screens  before the fits: patterns that no smooth law has, and sizes that the others contradict
average  the model average over laws, compiled, and its intervals
"""
