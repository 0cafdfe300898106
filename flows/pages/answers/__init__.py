"""What commands answer, a module a subject: declared columns, and blocks that terminals and pages show."""
