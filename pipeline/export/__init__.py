"""ESTIMATES to files that a scheduler's plug-in, a spreadsheet or a database can read, as bytes by file name."""
