"""The keys of every report to Ray Tune, and those that Tune keeps for itself."""

VALUE = "value"
PICKED = "picked"
EPOCH = "epoch"
FINAL = "final"
VALUES = "values"
VOID = "void"
TAKEN = frozenset(
    {VALUE, PICKED, EPOCH, FINAL, VALUES, VOID, "done", "config", "trial_id", "training_iteration"}
)
