"""Hypothesis gives the same examples in every `make test`; `make fuzz` asks for fresh ones.

An example that fails under `make fuzz` is printed with the code to repeat it, and is kept as a test with a name.
"""

import os

from hypothesis import settings

settings.register_profile("fixed", derandomize=True, database=None, deadline=None, print_blob=True)
settings.register_profile("fresh", derandomize=False, database=None, deadline=None, print_blob=True)
settings.load_profile(os.environ.get("WALLTIME_EXAMPLES", "fixed"))
