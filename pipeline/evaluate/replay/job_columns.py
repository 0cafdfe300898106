"""Columns of the arrays that the kernels share: one row a job, one number a column."""

# Of the jobs, which are in order of submit. PLANNED is the prediction in force, s; the kernels change it.
SUBMIT, RUN, REQUEST, PROCS, USER, PLANNED = 0, 1, 2, 3, 4, 5
N_JOB_COLUMNS = 6

# Of the result: start, first prediction, number of corrections, first promised start as the head (-1: none), and
# whether a job submitted before was still waiting.
START, FIRST, CORRECTIONS, PROMISE, BACKFILLED = 0, 1, 2, 3, 4
N_RESULT_COLUMNS = 5

# Of the options.
POLICY, CORRECTION, GUARD, LEARNS = 0, 1, 2, 3
N_OPTIONS = 4

# Of the state of a replay: free processors, numbers of running and of started jobs, ...
FREE, N_RUNNING, N_STARTED, N_ENDED, N_SUBMITTED, N_WAITING, HEAD = 0, 1, 2, 3, 4, 5, 6
# ... the head's planned start, the processors to spare then, whether both still hold, whether they use requests,
SHADOW, EXTRA, IS_SETTLED, IS_LATE = 7, 8, 9, 10
# ... jobs in the line of candidates; under CONSERVATIVE steps of the profile, whether too few processors are free for
# the planned starts, and the next planned start.
N_LINE, N_STEPS, IS_BROKEN, NEXT_START = 11, 12, 13, 14
N_STATE = 15
