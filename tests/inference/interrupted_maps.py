"""Interrupt maps, or tasks, on two threads at every line; print what came out as JSON.

Lines are those of the executor and of the library's threads and futures, as the calling
thread runs them. An interrupt between two of them is what Ctrl-C is, at its worst.
"""

import json
import signal
import sys
import threading
import time
from collections import Counter
from concurrent.futures import _base, thread

from skbnp.inference import executor
from skbnp.inference.executor import Executor

FILES = {module.__file__ for module in (threading, _base, thread, executor)}


class AtLine:
    """Traces this thread, and interrupts it at a line."""

    def __init__(self, number):
        self.left = number

    def __call__(self, frame, event, value):
        if frame.f_code.co_filename not in FILES:
            return None
        if event == "line":
            self.left -= 1
            if self.left == 0:
                signal.raise_signal(signal.SIGINT)
        return self


def work(item):
    time.sleep(2e-4 if item % 2 == 0 else 0.0)  # waits for every other
    return item


def run_map(pool):
    assert list(pool.map(work, range(4))) == list(range(4))


def run_map_all(pool):
    assert pool.map_all(work, range(4)) == list(range(4))


def run_tasks(pool):
    result = []
    pool.run([lambda item=item: result.append(work(item)) for item in range(4)])
    assert sorted(result) == list(range(4))


RUNS = {"map": run_map, "map_all": run_map_all, "run": run_tasks}


def interrupted(method, number):
    """Run one with an interrupt at a line; tell what ended it, if it got there."""
    tracer, before = AtLine(number), signal.getsignal(signal.SIGINT)
    sys.settrace(tracer)
    try:
        with Executor(2) as pool:
            RUNS[method](pool)
        ended = "nothing"
    except BaseException as error:
        ended = type(error).__name__
    finally:
        sys.settrace(None)
    if signal.getsignal(signal.SIGINT) is not before:
        ended = "another handler"
        signal.signal(signal.SIGINT, before)
    return ended, tracer.left <= 0


def main():
    result, number, reached = Counter(), 1, True
    while reached:
        ended, reached = interrupted(sys.argv[1], number)
        result[ended] += reached
        number += 1
    print(json.dumps(result))


if __name__ == "__main__":
    main()
