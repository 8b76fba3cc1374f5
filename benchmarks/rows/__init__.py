"""The rows of the table, a file per family."""
