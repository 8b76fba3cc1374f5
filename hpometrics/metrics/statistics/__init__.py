"""The statistics that metrics keep over batches and share, one file per kind."""
