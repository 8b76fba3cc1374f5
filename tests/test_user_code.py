"""What the user's code prints goes to stderr: stdout has the results alone."""

from __future__ import annotations

import subprocess
import sys

from hpometrics._imports import aside

LOUD = """
import logging, os, subprocess, sys
from hpometrics._imports import aside
log = logging.StreamHandler(sys.stdout)
print("before")
with aside() as stdout:
    print("by Python")
    os.write(1, b"by compiled code\\n")
    subprocess.run([sys.executable, "-c", "print('by a program')"], check=True)
    log.emit(logging.makeLogRecord({"msg": "by a log that had stdout before"}))
    print("a line of r\\u00e9sults", file=stdout)
print("after")
"""


def test_whatever_prints_prints_to_stderr():
    """Of Python, compiled code, other programs and older logs; lines of results go on to stdout."""
    environment = {"PYTHONIOENCODING": "utf8"}
    done = subprocess.run([sys.executable, "-c", LOUD], capture_output=True, check=True, env=environment)
    assert done.stdout.decode().splitlines() == ["before", "a line of résults", "after"]
    told = ["by Python", "by compiled code", "by a program", "by a log that had stdout before"]
    assert sorted(done.stderr.decode().splitlines()) == sorted(told)


def test_streams_that_are_no_files_are_exchanged(capsys):
    """A notebook has such; afterwards all is as it was."""
    with aside() as stdout:
        print("aside")
        print("result", file=stdout)
    print("after")
    assert capsys.readouterr() == ("result\nafter\n", "aside\n")
