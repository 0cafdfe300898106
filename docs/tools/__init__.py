"""Scripts that write parts of these documents from the code."""
