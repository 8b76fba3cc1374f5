"""Results: everything that reads a run directory."""
