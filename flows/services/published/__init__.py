"""What can be read from a published run."""
