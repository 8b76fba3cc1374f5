"""Pages: HTML that needs nothing beside itself, all of one look."""
