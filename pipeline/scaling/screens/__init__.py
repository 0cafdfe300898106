"""What no smooth law has: sizes that the others contradict, steps, classes of counts."""
