"""The catalogue: the built-in metrics, a file per family. Importing it registers them all."""

from . import classification, probability  # noqa: F401  # imported for what they register
