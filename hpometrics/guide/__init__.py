"""The guide: what is printed of the registry, for a terminal, for Markdown, and for the index itself."""
