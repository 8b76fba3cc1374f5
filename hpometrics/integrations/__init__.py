"""Bridges to training frameworks: a file each, imported only by those who use it."""
