"""Laws of long work: it looks for interrupts on its way, also in one document."""

import _thread
import signal
import threading

import numpy as np
import pytest
from sklearn.base import clone

from checks.long import daily
from skbnp import HDP, NestedCRP, StickBreakingHDP
from skbnp.kernels._hdp_local import infer_documents
from skbnp.kernels._interrupts import end_with

#: Multiplications between two looks, and some more that a pass may do.
MOST = 3 << 23


class Looks:
    """An event that counts how often it is asked."""

    def __init__(self):
        self.number = 0

    def is_set(self):
        self.number += 1
        return False


def in_thread(event, call):
    """Call in a thread of its own that ends with the event; what came out."""
    seen = []

    def run():
        end_with(event)
        try:
            seen.append(call())
        except InterruptedError as error:
            seen.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return seen[0]


def check_is_interrupted(call):
    """Raise unless the call ends in a thread whose event is set."""
    ended = threading.Event()
    ended.set()
    assert isinstance(in_thread(ended, call), InterruptedError)


def infer_one(n_words=20000, n_topics=8, max_iter=10):
    """Iterate topics of one document, `max_iter` times."""
    rng = np.random.default_rng(0)
    return infer_documents(
        np.array([0, n_words], dtype=np.int32),
        np.arange(n_words, dtype=np.int32),
        np.ones(n_words),
        rng.random((n_words, n_topics), dtype=np.float32),
        np.full(n_topics, 0.1),
        np.full(n_topics, 1.0 / n_topics),
        np.empty((1, n_topics), dtype=np.float32),
        False,
        max_iter,
        0.0,
        1e-9,
        plain=True,
    )


def test_work_of_one_document_looks_in_proportion_to_it():
    looks = Looks()
    n_words, n_topics, n_iter = 20000, 64, 60
    in_thread(looks, lambda: infer_one(n_words, n_topics, n_iter))
    assert looks.number >= n_words * n_topics * n_iter // MOST >= 3


def test_work_of_a_thread_ends_with_its_event():
    check_is_interrupted(lambda: infer_one(max_iter=10**6))


def test_interrupt_ends_the_work_of_the_main_thread():
    """Which would take a minute."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.2, _thread.interrupt_main)
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            infer_one(max_iter=10**6)
    finally:
        timer.join()
        signal.signal(signal.SIGINT, before)


ONE = {"max_iter": 1, "mean_change_tol": 0.0, "random_state": 0}
FLAT = [
    HDP(n_components=40, **ONE),
    HDP(variational_family="mean_field", n_components=40, **ONE),
    StickBreakingHDP(max_components=40, **ONE),
]
TREE = NestedCRP(init="sequential", structure_moves=False, **ONE)


@pytest.mark.parametrize("method", daily(1, ["fit", "transform"]))
@pytest.mark.parametrize("estimator", daily(2, [*FLAT, TREE]))
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_estimators_look_in_the_middle_of_one_document(estimator, method):
    X = np.random.default_rng(0).poisson(1.0, (1, 60000)) + 1
    estimator = clone(estimator)
    if method != "fit":
        estimator.fit(X)
    looks = Looks()
    in_thread(looks, lambda: getattr(estimator, method)(X))
    assert looks.number >= 2
