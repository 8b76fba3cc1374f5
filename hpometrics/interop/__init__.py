"""Audit searches of other tools, and convert their sweep files."""
