"""The search space: dimensions, conditions and bundles, with the same meaning on every backend."""
