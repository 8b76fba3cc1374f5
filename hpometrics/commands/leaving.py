"""Leaving: the exit codes of the commands, and which error leaves with which."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

import click

from ..exceptions import HpometricsError, NoFiniteValueError
from ..redaction import redacted

CONFIG_ERROR, NOTHING_FINITE, INTERRUPTED = 2, 3, 130


@contextmanager
def reported(verbose: bool = False) -> Iterator[None]:
    """Print an error of ours as it is and leave with the code for it."""
    try:
        yield
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except HpometricsError as err:
        click.echo(redacted(traceback.format_exc() if verbose else str(err)), err=True)
        sys.exit(NOTHING_FINITE if isinstance(err, NoFiniteValueError) else CONFIG_ERROR)
    except BrokenPipeError:
        raise  # click ends quietly when nobody reads on
    except OSError as err:
        place = "" if err.filename is None else f"{err.filename}: "
        told = f"error: {place}{err.strerror or err}"
        click.echo(redacted(traceback.format_exc() if verbose else told), err=True)
        sys.exit(CONFIG_ERROR)
