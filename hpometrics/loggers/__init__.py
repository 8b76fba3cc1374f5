"""Loggers follow a run epoch by epoch; each view is derived from the record and rebuilt on resumption."""
