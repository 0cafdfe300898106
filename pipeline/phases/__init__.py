"""Predicts a run's time on another machine from the times of a small part of it.

    an MPI trace  -> readers -> MPI_CALLS -> pas2p  -> PHASES, PHASE_POINTS ┐
    basic-block vectors --------------------> probes -> PHASES, PHASE_POINTS ┴-> prediction/plan -> PHASE_PLAN
                                    PHASE_PLAN + measured times -> PHASE_TIMES -> prediction -> PLATFORM_PREDICTIONS

Where do I go to ...
    read another format of traces?           readers/: one file, one line in readers/registry.py
    learn which calls are events?            readers/functions.py
    see how phases are found?                pas2p/stage.py: events, logical clock, growth, similarity, levels
    change what the paper says?              pipeline/core/phase_settings.py, one option a deviation
    choose what is timed?                    prediction/plan.py
    know when it does not pay?               prediction/repetition.py
    get a runtime with an interval?          prediction/expand.py

A phase's time is the mean over ranks of their progress through it, so that all occurrences add up to the run's time.
"""
