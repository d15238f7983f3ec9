"""Random programs for an engine, and what each must do: a serial interpreter that knows no engine."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from hypothesis import strategies as st

from netweave.runtime.engine import Future, Variable

NUM_VARIABLES = 5
LANES = {"compute": 1, "input": 3, "output": 2}


class BrokenError(Exception):
    """What the tasks of a program raise."""


@dataclass(frozen=True)
class Push:
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    lane: str = "compute"
    priority: int = 0
    fails: bool = False
    futures: bool = False
    delay_us: int = 0


@dataclass(frozen=True)
class WaitFor:
    variable: int


@dataclass(frozen=True)
class Result:
    push: int  # counted back from the last one


@dataclass(frozen=True)
class WaitAll:
    pass


variables = st.integers(0, NUM_VARIABLES - 1)
pushes = st.builds(
    Push,
    reads=st.lists(variables, max_size=3).map(tuple),
    writes=st.lists(variables, max_size=2).map(tuple),
    lane=st.sampled_from(sorted(LANES)),
    priority=st.integers(-1, 1),
    fails=st.sampled_from([False, False, False, True]),
    futures=st.sampled_from([False] * 4 + [True]),
    delay_us=st.sampled_from([0, 0, 0, 1, 20, 200]),
)
waits = st.one_of(st.builds(WaitFor, variables), st.builds(Result, st.integers(0, 5)), st.just(WaitAll()))
programs = st.lists(st.one_of(pushes, pushes, pushes, pushes, waits), max_size=25)


def mix(number, values):
    """A value that tells the task and everything that it saw, in order."""
    return hash((number, *values)) & 0xFFFFFFFF


class Model:
    """The meaning of a program: every task runs inside its push; errors spoil variables until told."""

    def __init__(self):
        self.cells = [0] * NUM_VARIABLES
        self.spoiled = [None] * NUM_VARIABLES
        self.results = []
        self.untold = []

    def push(self, number, step):
        writes = tuple(dict.fromkeys(step.writes))
        touched = [i for i in step.reads if i not in writes] + list(writes)
        error = next((self.spoiled[i] for i in touched if self.spoiled[i] is not None), None)
        value = None
        if error is None:
            value = mix(number, [self.cells[i] for i in (*step.reads, *step.writes)])
            for i in writes:
                self.cells[i] = value
            if step.fails:
                error, value = number, None
                self.untold.append(number)
        if error is not None:
            for i in writes:
                self.spoiled[i] = error
        self.results.append((value, error))

    def tell(self, error):
        if error in self.untold:
            self.untold.remove(error)
        return error

    def step(self, step):
        match step:
            case WaitFor(variable):
                error, self.spoiled[variable] = self.spoiled[variable], None
                return self.tell(error)
            case Result(back):
                if back >= len(self.results):
                    return None
                value, error = self.results[-1 - back]
                return value if error is None else ("error", self.tell(error))
            case WaitAll():
                self.spoiled = [None] * NUM_VARIABLES
                errors, self.untold = self.untold, []
                return errors[0] if errors else None

    def run(self, program):
        seen = []
        for number, step in enumerate([*program, WaitAll()]):
            if isinstance(step, Push):
                self.push(number, step)
            else:
                seen.append(self.step(step))
        return seen, self.cells, self.results


class Machine:
    """The same program on an engine; checks that nobody shares a variable with its writer."""

    def __init__(self, engine):
        self.engine = engine
        self.variables = [Variable(f"v{i}") for i in range(NUM_VARIABLES)]
        self.cells = [0] * NUM_VARIABLES
        self.readers = [0] * NUM_VARIABLES
        self.writers = [0] * NUM_VARIABLES
        self.lock = threading.Lock()
        self.conflicts = []
        self.completions = []

    def enter(self, reads, writes, sign):
        with self.lock:
            for i in reads:
                self.readers[i] += sign
            for i in writes:
                self.writers[i] += sign
            for i in (*reads, *writes):
                if self.writers[i] > 1 or (self.writers[i] and self.readers[i]):
                    self.conflicts.append(i)

    def task(self, number, step):
        writes = set(step.writes)
        reads = set(step.reads) - writes

        def body():
            seen = [self.cells[i] for i in (*step.reads, *step.writes)]
            time.sleep(step.delay_us * 1e-6)
            value = mix(number, seen)
            for i in writes:
                self.cells[i] = value
            self.enter(reads, writes, -1)
            if step.fails:
                raise BrokenError(number)
            return value

        def run():
            self.enter(reads, writes, 1)
            if not step.futures:
                return body()
            future = Future()

            def later():
                try:
                    value = body()
                except BrokenError as error:
                    future.fail(error)
                else:
                    future.set(value)

            threading.Thread(target=later).start()
            return future

        return run

    def step(self, step):
        try:
            match step:
                case WaitFor(variable):
                    return self.engine.wait_for(self.variables[variable])
                case Result(back):
                    if back >= len(self.completions):
                        return None
                    try:
                        return self.completions[-1 - back].result(timeout_s=10)
                    except BrokenError as error:
                        return ("error", error.args[0])
                case WaitAll():
                    return self.engine.wait_all()
        except BrokenError as error:
            return error.args[0]

    def run(self, program):
        seen = []
        for number, step in enumerate([*program, WaitAll()]):
            if isinstance(step, Push):
                self.completions.append(
                    self.engine.push(
                        self.task(number, step),
                        [self.variables[i] for i in step.reads],
                        [self.variables[i] for i in step.writes],
                        lane=step.lane,
                        priority=step.priority,
                    )
                )
            else:
                seen.append(self.step(step))
        results = []
        for completion in self.completions:
            assert completion.done
            error = completion.exception()
            results.append((None, error.args[0]) if error else (completion.result(), None))
        return seen, self.cells, results
