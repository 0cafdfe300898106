"""Files that a person names: configs, tables, and the errors of the system."""
