from .engines import *  # noqa: F403
