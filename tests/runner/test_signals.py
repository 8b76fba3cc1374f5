from __future__ import annotations

import signal

import pytest

from hpometrics.runner.signals import Interrupt, exit_code, raising_interrupts


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_is_an_interrupt_with_its_exit_code(number, code, request):
    """Also where compiled code raises a bare KeyboardInterrupt in its place, as Ray's does."""
    before = signal.signal(number, signal.SIG_DFL)  # which `nohup` would have changed
    request.addfinalizer(lambda: signal.signal(number, before))
    with raising_interrupts():
        with pytest.raises(Interrupt, match=number.name) as interrupt:
            signal.raise_signal(number)
        assert exit_code(interrupt.value) == exit_code(KeyboardInterrupt()) == code
    with raising_interrupts():
        assert exit_code(KeyboardInterrupt()) == 130


def test_a_signal_that_is_ignored_stays_ignored():
    """As `nohup` has SIGHUP."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with raising_interrupts():
            signal.raise_signal(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)
