"""Importing: sweep files of other tools, read and written anew as a sweep of ours."""
