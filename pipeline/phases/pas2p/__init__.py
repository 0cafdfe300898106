"""PAS2P: the repeating phases of an MPI run, from its logical trace.

Source: Wong, Rexachs and Luque, IEEE Transactions on Parallel and Distributed Systems 26(7), 2014.
"""
