"""Observations of runtimes over processor counts -> fitted laws, predictions with intervals, and advice.

batch, fit, downey  least squares of every law: one search, and Downey exactly; adept: ADEPT to compare
screens, levels  before the fits: patterns that no smooth law has, and sizes that the others contradict
average  the model average over laws, compiled; calibration: its intervals
"""
