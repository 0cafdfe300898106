"""Observations of runtimes over processor counts -> fitted laws, predictions with intervals, and advice.

fit_law, downey*  least squares of every law: one search, and Downey exactly; adept, envelope: ADEPT to compare
screens, levels  before the fits: patterns that no smooth law has, and sizes that the others contradict
average, posterior  the model average over laws, compiled; calibration: its intervals
"""
