"""Performance probes: the phases of a serial program, and its runtime elsewhere from a few timed intervals of each.

    frequency_vectors.py   reads the intervals of a .bb file
    projection.py          points of few dimensions from the intervals
    clustering.py          k-means with restarts, and the number of phases by BIC
    probe_phases.py        the phases, their representatives, their weights and the relevant ones
    interval_times.py      reads measured times of the intervals
    sampling.py            which intervals to time
    stratified.py          the runtime with intervals, from timed occurrences of each phase
    expansion.py           equation (4.7): a runtime from times of probes
    removal_curve.py       the accuracy that fewer phases keep
    master_worker.py       equations (4.8) and (4.9): the performance of a master/worker system
    probe_tables.py        the tables of phases, points, phase times and predictions

Source: Strube, Performance Probes (thesis, Universitat Autonoma de Barcelona, 2011); equations carry its numbers.
"""
