"""PAS2P: the repeating phases of an MPI run, from its logical trace (Wong, Rexachs and Luque, IEEE TPDS 26(7), 2014)."""
