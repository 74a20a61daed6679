"""Callbacks for scikit-learn's interface; importable, so that processes load them."""

import copy


class Recorder:
    """Note which hooks run, and with which X and y."""

    def __init__(self):
        self.events = []
        self.seen = []

    def setup(self, estimator, context):
        self.events.append("setup")

    def teardown(self, estimator, context):
        self.events.append("teardown")

    def on_fit_task_begin(self, estimator, context, *, X=None, y=None):
        self.events.append(f"begin {context.task_name}")
        self.seen.append((X, y))

    def on_fit_task_end(self, estimator, context, *, X=None, y=None):
        self.events.append(f"end {context.task_name}")
        self.seen.append((X, y))


class StopAfter:
    """Ask to stop after so many passes."""

    def __init__(self, n_passes):
        self.n_passes = n_passes

    def setup(self, estimator, context):
        self.n_seen = 0

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context):
        if context.task_name == "pass":
            self.n_seen += 1
        return context.task_name == "pass" and self.n_seen == self.n_passes


class Keep:
    """Keep the fitted estimators of all passes, and copies of them as they were."""

    def __deepcopy__(self, memo):
        return self  # or each copy would hold all copies before it

    def setup(self, estimator, context):
        self.fitted, self.copies, self.final = [], [], []

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        if context.task_name == "pass":
            self.fitted.append(fitted_estimator)
            self.copies.append(copy.deepcopy(fitted_estimator))
        elif context.parent is None:
            self.final.append(fitted_estimator)


class Trouble:
    """Raise at the end, or the beginning, of a pass."""

    def __init__(self, n_passes, hook="end"):
        self.n_passes = n_passes
        self.hook = hook

    def setup(self, estimator, context):
        self.n_seen = {"begin": 0, "end": 0}
        self.closed = False

    def teardown(self, estimator, context):
        self.closed = True

    def on_fit_task_begin(self, estimator, context):
        self._count("begin", context)

    def on_fit_task_end(self, estimator, context):
        self._count("end", context)

    def _count(self, hook, context):
        self.n_seen[hook] += context.task_name == "pass"
        if hook == self.hook and self.n_seen[hook] == self.n_passes:
            raise OSError("no space left")
