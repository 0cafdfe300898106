"""Observations of runtimes over processor counts -> fitted laws, predictions with intervals, and advice.

series  the sizes of every group, the noise of its runs, and the processor counts that a code can run on
fit, downey  least squares of every law: one search, and Downey exactly; adept: ADEPT to compare
screens  before the fits: patterns that no smooth law has, and sizes that the others contradict
average  the model average over laws, compiled, and its intervals
problem_sizes  one problem size from another, and weak scaling
predictions  the series of each axis with their fits, and PREDICTIONS by the average
group_runs  PREDICTIONS from the runs of each group
advice  which counts to request, and SCALABILITY; fitted_series: measured series through all stages
"""
