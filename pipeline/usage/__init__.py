"""What jobs held and did not use: JOBS -> WASTE."""
