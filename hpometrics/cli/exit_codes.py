"""The exit codes of the commands, and the errors that lead to them."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from .._redaction import redacted
from .._text import unencodable
from ..exceptions import DiskError, HpometricsError, NoFiniteValueError
from ..records._files import is_of_disk
from ..runner.signals import exit_code
from .options import show

CONFIG_ERROR, NOTHING_FINITE, DISK_ERROR = 2, 3, 5


@contextmanager
def report_errors(verbose: bool = False) -> Iterator[None]:
    """Print an error of this package without a traceback and exit with its code."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        sys.exit(exit_code(interrupt))
    except HpometricsError as err:
        show(redacted(traceback.format_exc() if verbose else str(err)), err=True)
        sys.exit(_code(err))
    except BrokenPipeError:
        raise  # click ends quietly when nobody reads on
    except UnicodeEncodeError as err:
        if err.encoding.lower() in ("utf-8", "utf8"):
            raise  # a bug of this package
        show(redacted(traceback.format_exc() if verbose else f"error: {unencodable(err)}"), err=True)
        sys.exit(CONFIG_ERROR)
    except OSError as err:
        place = "" if err.filename is None else f"{err.filename}: "
        message = f"error: {place}{err.strerror or err}"
        show(redacted(traceback.format_exc() if verbose else message), err=True)
        sys.exit(DISK_ERROR if is_of_disk(err) else CONFIG_ERROR)


def _code(err: HpometricsError) -> int:
    if isinstance(err, DiskError):
        return DISK_ERROR
    return NOTHING_FINITE if isinstance(err, NoFiniteValueError) else CONFIG_ERROR
