"""Records of trials: written before the next epoch begins, read by everything else."""
