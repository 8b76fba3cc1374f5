"""The keys of every report to Ray Tune, those that Tune keeps for itself, and those of a trial's config."""

VALUE = "value"
PICKED = "picked"
EPOCH = "epoch"
FINAL = "final"
VALUES = "values"
VOID = "void"
FULL = "full"
CHECKPOINT_SCORE = "checkpoint_score"
"""Beside a checkpoint: its epoch, from 1, if that is the picked one, else 0; so the picked epoch has the
greatest."""
TAKEN = frozenset(
    {
        *(VALUE, PICKED, EPOCH, FINAL, VALUES, VOID, FULL, CHECKPOINT_SCORE),
        *("done", "config", "trial_id", "training_iteration"),
    }
)

NUMBER, PARAMS = "number", "params"
GIVEN = "given"
"""The params that a trial began with, where those in force are others."""
DONOR, SINCE = "donor", "since"
"""Of a trial that has just exploited another: whose state it goes on from, and from which epoch on."""
