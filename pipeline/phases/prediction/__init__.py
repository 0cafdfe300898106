"""From phases to a runtime elsewhere: what to time, and how to expand the times."""
