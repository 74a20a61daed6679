"""What all benchmarks share: corpora, the standard split, versions, results."""

import json
import os
import platform
import subprocess
import sys
import time
from contextlib import suppress
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

for _name in ("OMP", "OPENBLAS", "MKL", "NUMEXPR"):
    os.environ[f"{_name}_NUM_THREADS"] = "1"

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, TransformerMixin

from skbnp.estimators._samplers import TokenCorpus
from skbnp.estimators._trees import TopicTreeMixin
from skbnp.inference.executor import Executor
from skbnp.inference.protocols import LocalStop
from skbnp.metrics import (
    document_completion_score,
    held_out_log_likelihood,
    split_tokens,
)
from skbnp.models.hdp.fold_in import MixturePredictor
from skbnp.models.nested_crp.local import PathPredictor
from skbnp.rows.batch import Tokens
from skbnp.utils.random import draw_seed_entropy

RESULTS = Path(__file__).parent / "results"
#: Packages whose versions a page names if they are in use.
PACKAGES = ("gensim", "tomotopy", "topica", "dask", "distributed")


def data_folder():
    """Folder that SKBNP_DATA names."""
    folder = os.environ.get("SKBNP_DATA")
    if not folder:
        raise SystemExit("SKBNP_DATA must name the folder of the corpora.")
    return Path(folder)


def load_corpus(name):
    """Counts of a corpus in the folder that SKBNP_DATA names."""
    counts = sp.load_npz(data_folder() / f"{name}.npz")
    return sp.csr_array(counts.astype(np.float64))


def standard_split(counts, test_share=0.1):
    """Training and test rows: at least 5 tokens, columns with a training token."""
    counts = counts[np.asarray(counts.sum(axis=1)).ravel() >= 5]
    order = np.random.default_rng(0).permutation(counts.shape[0])
    n_test = int(test_share * counts.shape[0])
    train, test = counts[order[n_test:]], counts[order[:n_test]]
    used = np.asarray(train.sum(axis=0)).ravel() > 0
    return train[:, used], test[:, used]


def standard_score(topic_word_distr, doc_prior, test):
    """Score anybody's topics on the same 80/20 split of tokens, by the same fold-in."""
    return held_out_log_likelihood(
        topic_word_distr,
        doc_prior,
        *split_tokens(test, random_state=0),
        repeats=False,
    )


def cpu_seconds(function):
    """Run a function; return its result and the processor time it took."""
    begin = time.process_time()
    result = function()
    return result, time.process_time() - begin


def resident():
    """Resident memory, MB."""
    n_pages = int(Path("/proc/self/statm").read_text().split()[1])
    return n_pages * os.sysconf("SC_PAGESIZE") / 2**20


def hdp_prior(hdp):
    """Dirichlet parameters of a document; the last is of all topics not represented."""
    weights = hdp.topic_weights_
    leftover = max(1.0 - weights.sum(), 1e-12)
    return hdp.doc_concentration_ * np.append(weights, leftover)


def topics_of(hdp):
    """Topics, the document prior by which `score` predicts, number of topics."""
    scale = hdp.prediction_concentration_ / hdp.doc_concentration_
    return hdp.topic_word_distr_, scale * hdp_prior(hdp), hdp.n_components_


def minibatches(counts, batch_size, seed):
    """Yield minibatches of equal size without end, each pass in a new random order."""
    rng, n_rows = np.random.default_rng(seed), counts.shape[0]
    while True:
        for rows in np.array_split(rng.permutation(n_rows), -(-n_rows // batch_size)):
            yield counts[rows]


def split_types(counts, observed=0.8, seed=0):
    """Split the word types of each document: all tokens of a type are on one side."""
    is_observed = np.random.default_rng(seed).random(len(counts.data)) < observed
    parts = []
    for chosen in (is_observed, ~is_observed):
        part = counts.copy()
        part.data = part.data * chosen
        part.eliminate_zeros()
        parts.append(part)
    return tuple(parts)


def type_score(topics, prior, observed, held):
    """Log probability of new word types, each once, among words not yet observed.

    Nats per type, under topics with the cache that the observed tokens suggest.
    """
    prior = np.full(len(topics), prior) if np.ndim(prior) == 0 else np.asarray(prior)
    predictor = MixturePredictor.of_topics(topics, prior, repeats=True)
    (sample,), n_words = predictor.samples, topics.shape[1]
    topics = topics / topics.sum(axis=1, keepdims=True)
    with Executor(None) as executor:
        burstiness = predictor._burstiness(sample, observed, executor)
        seated, _, _ = predictor._infer(sample, observed, burstiness, executor)
    theta = seated.doc_topic.toarray() + sample.doc_prior[:-1]
    rest, total = sample.doc_prior[-1], 0.0
    for first in range(0, held.shape[0], 200):
        rows = slice(first, first + 200)
        mixed = theta[rows] @ topics + rest / n_words
        mixed /= theta[rows].sum(axis=1, keepdims=True) + rest
        seen, new = (part[rows].toarray() > 0 for part in (observed, held))
        left = 1.0 - np.where(seen, mixed, 0.0).sum(axis=1, keepdims=True)
        total += np.log((mixed / left)[new]).sum()
    return float(total / held.nnz)


def watch(step, look, limit, goal=np.inf, spacing=1.05, times=()):
    """Learn for so many processor seconds, or up to a goal, and look on the way.

    `step` learns, `look` returns a score and a number of topics. Returns a list of
    [seconds, score, topics]; looks are at least a factor `spacing` of time apart, or
    where `times` are given, where one more step like the last would pass one of these,
    or one has been passed unforeseen. Their own time does not count.
    """
    points, seconds, times = [], 0.0, list(times)
    while seconds < limit:
        taken = cpu_seconds(step)[1]
        seconds += taken
        last = points[-1][0] if points else 0.0
        if times:
            passed = any(
                max(last, seconds - taken) < moment < seconds for moment in times
            )
            is_due = passed or any(
                seconds <= moment < seconds + taken for moment in times
            )
        else:
            is_due = seconds >= min(spacing * last, limit)
        if is_due or not points:
            points.append([seconds, *look()])
            if points[-1][1] >= goal:
                break
    return points


class Curve:
    """A callback that looks at a fit now and then, and ends it in time.

    `look` takes a fitted estimator and returns a list; `points` are [seconds, *look],
    a factor `spacing` and `gap` seconds apart at the least.
    """

    def __init__(self, look, limit, spacing=1.15, gap=1.0):
        self.look, self.limit, self.spacing, self.gap = look, limit, spacing, gap
        self.points, self.looking = [], 0.0

    def seconds(self):
        """Processor seconds of the fit so far."""
        return time.process_time() - self.begin - self.looking

    def setup(self, estimator, context):
        self.begin, self.next = time.process_time(), 0.0

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        seconds = self.seconds()
        if fitted_estimator is None or context.task_name != "pass":
            return False
        if seconds >= self.next:
            before = time.process_time()
            self.points.append([seconds, *self.look(fitted_estimator)])
            self.looking += time.process_time() - before
            self.next = max(self.spacing * seconds, seconds + self.gap)
        return seconds > self.limit


class KnownTopics(BaseEstimator):
    """Topics to start `GibbsHDP` from, by `init`."""

    def __init__(self, topics, weights, doc_concentration=1.0):
        self.topics, self.weights = topics, weights
        self.doc_concentration = doc_concentration
        self.components_ = self.topic_word_distr_ = topics
        self.topic_weights_ = weights
        self.doc_concentration_ = doc_concentration

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        prior = self.doc_concentration_ * self.topic_weights_
        predictor = MixturePredictor.of_topics(self.topic_word_distr_, prior)
        with Executor(None) as executor:
            counts = sp.csr_array(X, dtype=float)
            theta = predictor.infer(predictor.samples[0], counts, executor)
        return theta / theta.sum(axis=1, keepdims=True)

    def score(self, X, y=None):
        return document_completion_score(self, X, repeats=False)


class GibbsRun:
    """The chain of a `GibbsHDP`, sweep by sweep: what `fit` does, and nothing beside.

    `seconds` is the processor time of the start and of the sweeps so far.
    """

    def __init__(self, hdp, counts):
        begin = time.process_time()
        corpus = TokenCorpus(
            counts, Tokens.from_counts(counts), np.arange(counts.shape[0])
        )
        entropy = draw_seed_entropy(hdp.random_state)
        start = next(hdp._starts(corpus, entropy, False))
        self.chain = hdp._make_chain(corpus, entropy, start, 0, burn_in=hdp._burn_in())
        self.seconds = time.process_time() - begin

    def step(self):
        """One sweep; returns its columns of `history_`."""
        begin = time.process_time()
        for piece in range(self.chain.n_pieces):
            self.chain.run(piece)
        self.chain.accept()
        self.seconds += time.process_time() - begin
        return self.chain.trace()


def sample_score(samples, parts, *, repeats=False):
    """Score as of `GibbsHDP`: probabilities averaged over samples.

    With `repeats` each sample has the cache that the observed tokens suggest.
    """
    predictor = MixturePredictor(samples, repeats=repeats, learns=repeats)
    with Executor(None) as executor:
        total = predictor.log_likelihood(*parts, executor)
    return float(total / parts[1].sum())


class TreeSamples(TopicTreeMixin, TransformerMixin, BaseEstimator):
    """States of a sampler, any sampler's, as an estimator that can be scored."""

    sparse_output = False

    def __init__(self, samples, n_jobs=None):
        self.samples, self.n_jobs = samples, n_jobs
        self.n_features_in_ = samples[0].topic_word_counts.shape[1]
        self.tree_ = samples[-1].tree

    def fit(self, X, y=None):
        return self

    def _describe(self, rows):
        return f"{rows.shape[0]} documents"

    def _predictor(self):
        trees = [sample.for_prediction() for sample in reversed(self.samples)]
        return PathPredictor(trees, LocalStop(100, 1e-3))


def time_to(score, points):
    """Processor seconds at the first look with this score or more; inf if none has."""
    return next((point[0] for point in points if point[1] >= score), np.inf)


def groups(rows, by):
    """Yield values of the columns `by`, and the rows that have them."""
    same = {}
    for row in rows:
        same.setdefault(tuple(row[name] for name in by), []).append(row)
    for key, some in same.items():
        yield dict(zip(by, key, strict=True)), some


def medians(rows, by):
    """One row for each value of the columns `by`, with medians of the other numbers."""
    table = []
    for key, same in groups(rows, by):
        row = {**key, "seed": "median"}
        for name, value in same[0].items():
            if name not in row and type(value) in (int, float):
                known = [other[name] for other in same if name in other]
                row[name] = float(np.median(known))
        table.append(row)
    return table


def commit(folder=Path(__file__).parent):
    """Name of the measured commit, with "+" where files beside results have changed."""
    given = {"cwd": folder, "capture_output": True, "text": True}
    name = ["git", "describe", "--always", "--abbrev=10"]
    changed = ["git", "status", "--porcelain", "--untracked-files=no"]
    changed += ["--", ":/", ":(exclude,top)benchmarks/results"]
    try:
        name, changed = (
            subprocess.run(command, **given).stdout.strip()
            for command in (name, changed)
        )
    except OSError:
        return "unknown"
    return f"{name}+" if changed else name or "unknown"


def command():
    """The command that is running, as from the top of the repository."""
    script = Path(sys.argv[0]).resolve()
    root = Path(__file__).resolve().parents[1]
    name = script.relative_to(root) if script.is_relative_to(root) else script.name
    return " ".join([str(name), *sys.argv[1:]])


def environment():
    """Machine, commit, command, day, cost so far, and versions of what is in use."""
    names = ["skbnp", "scikit-learn", "numpy", "scipy"]
    names += filter(sys.modules.get, PACKAGES)
    versions = {}
    for name in names:
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    model = [
        line.split(":")[1].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    return {
        "python": platform.python_version(),
        "machine": f"{model[0] if model else platform.processor()}, one thread",
        "commit": commit(),
        "command": command(),
        "date": date.today().isoformat(),
        "CPU s": round(sum(os.times()[:4])),
        **versions,
    }


def save(name, rows, columns, text=None, n_shown=None):
    """Write rows and the environment as JSON, and some columns as a page to read.

    The page shows the first `n_shown` rows, all by default, below a text: the one that
    is written in the page by hand, unless it is given as it has measured numbers.
    """
    made = environment()
    write_rows(name, made, rows)
    write_page(name, made, rows[:n_shown], columns, text)


def write_rows(name, made, rows):
    """Write rows, each on one line, and the environment they were made in, as JSON."""
    RESULTS.mkdir(exist_ok=True)
    lines = ",\n".join(json.dumps(row) for row in rows)
    text = f'{{"environment": {json.dumps(made)},\n"rows": [\n{lines}\n]}}\n'
    (RESULTS / f"{name}.json").write_text(text)


def stored(name):
    """Environment and rows of a page; None and no rows if it has none."""
    path = RESULTS / f"{name}.json"
    if not path.exists():
        return None, []
    content = json.loads(path.read_text())
    return content["environment"], content["rows"]


def write_page(name, made, rows, columns, text=None):
    """Write some columns of rows below a text, which is kept unless it is given."""
    path = RESULTS / f"{name}.md"
    if text is None and path.exists():
        page = path.read_text(encoding="utf-8").partition("\n(python ")[0]
        text = page.partition("\n")[2]
    listed = ", ".join(f"{key} {value}" for key, value in made.items())
    lines = [f"# {name}", "", (text or "").strip(), "", f"({listed})", ""]
    lines += [f"| {' | '.join(columns)} |", "|" + " --- |" * len(columns)]
    for row in rows:
        cells = (row.get(column, "") for column in columns)
        texts = (
            f"{cell:.3f}" if isinstance(cell, float) else str(cell) for cell in cells
        )
        lines.append(f"| {' | '.join(texts)} |")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
