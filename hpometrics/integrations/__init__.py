"""Integrations with training frameworks, one file each, imported only by their users."""
