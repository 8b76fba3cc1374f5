"""Which epoch counts for a run and which trial wins; functions of records alone."""
