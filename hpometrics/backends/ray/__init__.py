"""The Ray Tune backend."""
