"""Audit: what searches of other tools have left, looked through for what misleads; nothing is written."""
