"""What is Transformers' own: whole passes or batches, models with several outputs, its checkpoints."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers
from small_fits import VALID, Labeled, hf_trainer, hugging_face, table

from hpometrics.exceptions import RunError
from hpometrics.integrations.transformers import RunCallback
from hpometrics.metrics.features import Category
from hpometrics.run import Run

FACTS: dict[str, Any] = {"metric": "f1(average=macro)", "output": Category(3), "track": ["ece"]}


def test_a_pass_at_once_or_batch_by_batch_is_the_same(tmp_path):
    """The F1 of a pass is that of its rows, not a mean over batches."""
    whole, batches = Run(**FACTS), Run(**FACTS)
    hugging_face(whole, 2, tmp_path)
    hugging_face(batches, 2, tmp_path, batch_eval_metrics=True)
    measured = [
        [(record.values["f1(average=macro)"], record.values["ece"]) for record in run.history]
        for run in (whole, batches)
    ]
    assert measured[0] == measured[1]


class Verbose(Labeled):
    """Gives its hidden states beside the logits."""

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        return {**super().forward(x, labels), "hidden": self.network[0](x)}


def test_of_several_outputs_the_user_says_which(tmp_path):
    """Nothing is guessed: the error shows how to say it."""
    with pytest.raises(RunError, match=r"returns 2 outputs; pass as read= a function that names them"):
        hf_trainer(RunCallback(Run(**FACTS)), 1, tmp_path, Verbose()).train()
    run, plain = Run(**FACTS), Run(**FACTS)
    callback = RunCallback(
        run, lambda prediction: {"logits": prediction.predictions[0], "target": prediction.label_ids}
    )
    hf_trainer(callback, 1, tmp_path, Verbose()).train()
    hugging_face(plain, 1, tmp_path)
    assert run.value == plain.value


def test_two_sets_to_evaluate_are_refused(tmp_path):
    """The second would count for the next epoch."""
    trainer = hf_trainer(
        RunCallback(Run(**FACTS)), 2, tmp_path, Labeled(), eval_dataset=dict.fromkeys("ab", table(VALID))
    )
    with pytest.raises(RunError, match="one ended in epoch 1 of the trainer while the run is at epoch 2"):
        trainer.train()


def test_a_checkpoint_of_the_trainer_is_refused(tmp_path):
    """Both would be restored; the run's own says which epochs are reported."""
    hugging_face(Run(**FACTS), 1, tmp_path, save_strategy="epoch")
    trainer = hf_trainer(RunCallback(Run(**FACTS)), 2, tmp_path, Labeled())
    with pytest.raises(RunError, match="from its own checkpoint; leave resume_from_checkpoint= out"):
        trainer.train(resume_from_checkpoint=True)


def test_a_training_that_the_trainer_ends_early_is_whole(tmp_path):
    """No epoch is opened behind the last one by the trainer's closing words."""
    run = Run(**FACTS)
    trainer = hf_trainer(
        RunCallback(run), 9, tmp_path, Labeled(), metric_for_best_model="eval_loss", greater_is_better=False,
        load_best_model_at_end=True, save_strategy="epoch", save_total_limit=1,
    )  # fmt: skip
    trainer.add_callback(transformers.EarlyStoppingCallback(1, early_stopping_threshold=9.0))
    trainer.train()
    run.close()
    assert len(run.history) == 2
    assert run.value == max(record.values["f1(average=macro)"] for record in run.history)


class Stops(transformers.TrainerCallback):
    """Ends a training after its second epoch, as an early stopping does."""

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        control.should_training_stop |= state.epoch >= 2


def test_a_trial_counts_by_its_picked_epoch_whatever_ends_it(tmp_path):
    """Every row is right in the first epoch, none in the second, after which another callback ends it."""
    signs = iter([1, -1])

    def read(prediction: transformers.EvalPrediction) -> dict[str, Any]:
        target = torch.as_tensor(prediction.label_ids)
        return {"logits": next(signs) * torch.eye(3)[target], "target": target}

    callback = RunCallback(lambda: Run(metric="accuracy", output=Category(3)), read)
    trainer = hf_trainer(callback, 9, tmp_path, None, model_init=Labeled, eval_on_start=False)
    trainer.add_callback(Stops())
    best = trainer.hyperparameter_search(lambda trial: {}, n_trials=1, **callback.search())
    assert [record.values["accuracy"] for record in callback.run.history] == [1.0, 0.0]
    assert best.objective == callback.run.value == 1.0
