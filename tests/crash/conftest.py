"""Runs killed at random instants, for `make test-crash` alone: `make test` does not collect this folder."""

import os

SWITCH = "WALLTIME_TEST_CRASH"
collect_ignore_glob = [] if os.environ.get(SWITCH) else ["*"]
KILLS = int(os.environ.get("WALLTIME_CRASH_KILLS", "200"))
SEED = int(os.environ.get("WALLTIME_CRASH_SEED", "15"))
