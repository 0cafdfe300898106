"""The small process that follows the accounting between two runs, and keeps the State up to date."""
