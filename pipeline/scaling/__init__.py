"""Observations of runtimes over processor counts -> fitted laws, predictions with intervals, and advice.

series  the sizes of every group, the noise of its runs, and the processor counts that a code can run on
fit, downey  least squares of every law: one search, and Downey exactly; adept: ADEPT to compare
screens  before the fits: patterns that no smooth law has, and sizes that the others contradict
average  the model average over laws, compiled, and its intervals
problem_sizes  one problem size from another, and weak scaling
predictions, group_runs  PREDICTIONS by the average, and from the runs of each group
advice  which counts to request, SCALABILITY, and measured series through all stages; waste: what jobs did not use
"""
