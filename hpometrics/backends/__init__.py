"""Backends: what carries trials out."""
