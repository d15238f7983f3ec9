"""Random programs equal their serial run, on both engines."""

from __future__ import annotations

import contextlib
import sys

import pytest
from hypothesis import given, settings

from netweave.runtime.engine import SerialEngine, ThreadedEngine
from tests.runtime.engine.programs import LANES, Machine, Model, programs
from tests.time_limits import many


@contextlib.contextmanager
def frequent_switches():
    """Let the interpreter change threads 500 times as often as usual."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def check(engine_type, program):
    with engine_type(LANES) as engine:
        machine = Machine(engine)
        assert machine.run(program) == Model().run(program)
        assert not machine.conflicts
        assert all(not variable._readers for variable in machine.variables)


@given(programs)
@settings(max_examples=300, deadline=None)
def test_threads_do_what_a_serial_run_does(program):
    with frequent_switches():
        check(ThreadedEngine, program)


@given(programs)
@settings(max_examples=100, deadline=None)
def test_the_serial_engine_does_what_a_serial_run_does(program):
    check(SerialEngine, program)


@pytest.mark.slow
@given(programs)
@settings(max_examples=many(10_000, in_ci=400), deadline=None)
def test_many_programs(program):
    with frequent_switches():
        check(ThreadedEngine, program)
