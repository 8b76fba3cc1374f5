"""The keys of every report to Ray Tune, and those that Tune keeps for itself."""

VALUE = "value"
PICKED = "picked"
EPOCH = "epoch"
FINAL = "final"
VALUES = "values"
VOID = "void"
FULL = "full"
TAKEN = frozenset(
    {VALUE, PICKED, EPOCH, FINAL, VALUES, VOID, FULL, "done", "config", "trial_id", "training_iteration"}
)
