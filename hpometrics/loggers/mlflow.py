"""MlflowLogger logs each trial as an MLflow run, with its params, its values and the value that counts."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from filelock import FileLock

from .._redaction import excerpt
from ..records._files import atomic_write
from ..records.trial_record import EpochRecord, numbers_of
from .registry import Standing, place_in_sweep
from .tensorboard import PICKED, Tags

RUN_FILE = "mlflow.json"
_SQLITE = "sqlite:///"
_LONGEST = 6000  # characters of a param
_MOST = 100  # params of one request, and the tenth part of its metrics


class MlflowLogger:
    """Logs to an MLflow server or database; metrics have the names that TensorBoard shows.

    A run that resumes after a kill is logged anew from its record, and its earlier run is deleted. A value
    that is not finite is logged as nan.

    Args:
        directory: the trial's own; it keeps the id of its run.
        uri: of the server or database, as in `sqlite:///mlflow.db`; unless given, MLflow's own choice.
        experiment: its name; unless given, that of the folder of the sweep.
    """

    def __init__(self, directory: Path, *, uri: str | None = None, experiment: str | None = None) -> None:
        self._directory, self._uri = directory, uri
        sweep, self._place = place_in_sweep(directory)
        self._experiment = experiment or sweep
        self._client: Any = None
        self._run = ""

    def begin(self, run: Standing) -> None:
        """Begin a run of MLflow with the params and the epochs before a restart."""
        from mlflow import MlflowClient
        from mlflow.entities import Param

        with self._alone():  # two processes cannot both create a database, or an experiment
            client = MlflowClient(tracking_uri=self._uri)
            experiment = client.get_experiment_by_name(self._experiment)
            if experiment is None:
                number = client.create_experiment(self._experiment)
            else:
                number = experiment.experiment_id
        file = self._directory / RUN_FILE
        if file.exists():
            _delete_run(client, json.loads(file.read_text(encoding="utf8"))["run_id"])
        name = f"{self._experiment}/{self._place}"
        self._run, self._tags = client.create_run(number, run_name=name).info.run_id, Tags()
        self._client = client
        with atomic_write(file, sync=False) as opened:
            opened.write(json.dumps({"run_id": self._run, "experiment": self._experiment}).encode())
        params = [Param(name, _text(value)) for name, value in run.params.items()]
        for start in range(0, len(params), _MOST):
            self._client.log_batch(self._run, params=params[start : start + _MOST])
        self._log(run, range(len(run.history)))

    def epoch(self, run: Standing) -> None:
        """Log an epoch."""
        self._log(run, [len(run.history) - 1])

    def end(self, run: Standing) -> None:
        """Log how the run ended."""
        if self._client is not None:
            self._client.set_terminated(self._run, "FINISHED" if run.complete else "KILLED")
            self._client = None

    def _log(self, run: Standing, places: Sequence[int]) -> None:
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        metrics = [
            Metric(name, value, now, run.history[place].place)
            for place in places
            for name, value in self._values(run, place, run.history[place]).items()
        ]
        for start in range(0, len(metrics), 10 * _MOST):
            self._client.log_batch(self._run, metrics=metrics[start : start + 10 * _MOST])

    def _values(self, run: Standing, place: int, record: EpochRecord) -> Mapping[str, float]:
        numbers = numbers_of(record.values)
        tags = self._tags.of(numbers)
        picked = run.value_at(place)
        return {tags[name]: value for name, value in numbers.items()} | (
            {} if picked is None else {PICKED: picked}
        )

    def _alone(self) -> AbstractContextManager[Any]:
        if self._uri is None or not self._uri.startswith(_SQLITE):
            return nullcontext()
        return FileLock(f"{self._uri.removeprefix(_SQLITE)}.lock")


def _delete_run(client: Any, run: str) -> None:
    """Delete the run of an earlier process, unless the server does not have it any more."""
    from mlflow.exceptions import MlflowException

    try:
        client.delete_run(run)
    except MlflowException as err:
        if err.error_code != "RESOURCE_DOES_NOT_EXIST":
            raise


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return excerpt(text, _LONGEST)
