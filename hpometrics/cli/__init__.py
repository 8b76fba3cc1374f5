"""The commands of `hpometrics`, a file per section of its help; each imports what it needs when it runs."""
