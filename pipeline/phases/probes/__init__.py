"""Performance probes: the phases of a serial program, found in the basic blocks that its intervals execute.

    frequency_vectors.py   reads the intervals of a .bb file
    interval_times.py      reads the measured times of the intervals
    projection.py          points of few dimensions from the intervals
    clustering.py          k-means with restarts, and the number of phases by BIC
    probe_phases.py        the phases, their representatives and their weights
    stage.py               the tables PHASES and PHASE_POINTS
    removal_curve.py       the accuracy that fewer phases keep
    expansion.py           equation (4.7): a runtime from times of probes
    master_worker.py       equations (4.8) and (4.9): the performance of a master/worker system

What to time, and the runtime from the times, is the same as for MPI traces: see `pipeline/phases/prediction`.

Source: Strube, Performance Probes (thesis, Universitat Autonoma de Barcelona, 2011); equations carry its numbers.
"""
