"""The sources of a program's values, read while the program runs."""
