"""Accounting files of OpenPBS, PBS Professional and TORQUE."""
