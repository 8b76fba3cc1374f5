"""What `hpometrics init` lays down: files to start from, not to import."""
