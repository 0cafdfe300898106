"""Models of the runtime over the inputs of runs: learnt from CSV, asked, and asked for the next runs."""
