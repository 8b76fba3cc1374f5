from .metric_spec import Reported as Reported
from .run import Run as Run
from .spec import RunSpec as RunSpec, engine as engine, engine_facts as engine_facts
from .trial import run_trial as run_trial

__all__: list[str]
