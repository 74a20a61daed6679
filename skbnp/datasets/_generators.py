"""Generators of corpora from topic models, returned with the true parameters.

Every generator draws document after document from one stream, so that the first rows
do not depend on how many follow.
"""

from collections.abc import Iterator, Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax
from sklearn.utils import Bunch, check_random_state

from skbnp.datasets._loaders import count_words
from skbnp.distributions import draw
from skbnp.trees import TreeView
from skbnp.utils.random import Purpose, draw_seed_entropy, stream
from skbnp.utils.typing import RandomStateLike
from skbnp.utils.validation import POSITIVE, Interval, at_least, validated

_POSITIVE = Interval(Real, 0, None, closed="neither")
#: What parameters may be.
_KINDS = {
    POSITIVE: "n_samples n_epochs n_features side n_words",
    _POSITIVE: "doc_topic_prior topic_word_prior corpus_concentration "
    "doc_concentration loading_std noise_std",
    at_least(0, Real): "concentration prior_concentration parent_weight past_weight",
}
_PARAMETERS: dict[str, list] = {
    **{name: [kind] for kind, names in _KINDS.items() for name in names.split()},
    "branching": ["array-like"],
    "level_prior": [_POSITIVE, "array-like"],
    "lifetimes": ["array-like", None],
}

_NO_WORDS = np.empty(0, dtype=np.int64)


@validated(**_PARAMETERS)
def make_bars(
    n_samples: int = 2000,
    *,
    side: int = 10,
    n_words: int = 250,
    doc_topic_prior: float = 0.1,
    random_state: RandomStateLike = None,
) -> Bunch:
    """Draw the bars corpus: topics are the rows and columns of a square grid.

    Word ``w`` is the cell in row ``w // side`` and column ``w % side``. Each topic is
    uniform on the cells of one row or one column, so every word belongs to exactly two
    topics. A document draws topic proportions from a symmetric Dirichlet, then for
    each token a topic and a word of that topic.

    Parameters
    ----------
    n_samples : int, default=2000
        Number of documents. For test documents from the same model ask for more and
        slice: the first rows do not depend on `n_samples`.
    side : int, default=10
        Cells on a side of the grid: ``2 * side`` topics over ``side**2`` words.
    n_words : int, default=250
        Tokens in each document.
    doc_topic_prior : float, default=0.1
        Dirichlet parameter of each topic, > 0; larger values mix more bars in a
        document. The default shows two to four.
    random_state : int, RandomState instance or None, default=None
        Determines the draw. Pass an int for the same corpus at every call. A
        `RandomState` goes on where it stands: a second call returns the rows that
        would have followed.

    Returns
    -------
    bars : :class:`~sklearn.utils.Bunch`
        Dictionary-like object with the attributes

        data : sparse matrix or array in CSR format, (n_samples, side**2)
            Word counts, int64; scikit-learn's `sparse_interface` setting chooses
            matrix or array.
        topic_word_distr : ndarray of shape (2 * side, side**2)
            Word probabilities of each topic: rows from the top, then columns from the
            left.
        doc_topic_distr : ndarray of shape (n_samples, 2 * side)
            Topic proportions of each document.
        feature_names : list of str
            Name of each cell.
        DESCR : str
            Description of the corpus.

    Raises
    ------
    InvalidParameterError
        A `ValueError`, if a parameter is outside of its domain.

    Notes
    -----
    The corpus of [2]_, of the type introduced in [1]_.

    **Departures from the paper.** [2]_ does not state the document Dirichlet; 0.1 for
    each topic is a choice. With the Dirichlet(1) of [1]_ documents mix so many bars
    that a start from few topics is hard for any method.

    References
    ----------
    .. [1] T. L. Griffiths and M. Steyvers, "Finding scientific topics", Proceedings of
       the National Academy of Sciences 101, 2004.
    .. [2] M. Bryant and E. B. Sudderth, "Truly nonparametric online variational
       inference for hierarchical Dirichlet processes", Advances in Neural Information
       Processing Systems 25, 2012.

    Examples
    --------
    >>> from skbnp.datasets import make_bars
    >>> bars = make_bars(n_samples=220, random_state=0)
    >>> X_train, X_test = bars.data[:200], bars.data[200:]
    >>> X_train.shape, X_test.shape, bars.topic_word_distr.shape
    ((200, 100), (20, 100), (20, 100))
    """
    rng = check_random_state(random_state)
    topic_word = np.vstack(
        [np.repeat(np.eye(side), side, axis=1), np.tile(np.eye(side), side)]
    )
    topic_word /= side
    prior = np.full(2 * side, float(doc_topic_prior))
    doc_topic = np.empty((n_samples, 2 * side))
    documents = []
    for shares in doc_topic:
        shares[:] = _draw_dirichlet(rng, prior)
        # Topics of tokens are not part of the truth returned, so they are summed out.
        documents.append(_draw_words(rng, n_words, np.cumsum(shares @ topic_word)))
    return Bunch(
        data=count_words(documents, side**2),
        topic_word_distr=topic_word,
        doc_topic_distr=doc_topic,
        feature_names=[f"row{w // side}_col{w % side}" for w in range(side**2)],
        DESCR=f"{n_samples} documents of {n_words} words over the {side**2} cells of a "
        f"square grid.\nThe {2 * side} topics are its rows and its columns, each "
        "uniform on its cells.",
    )


@validated(**_PARAMETERS | {"n_words": [_POSITIVE]})
def make_hdp(
    n_samples: int = 1000,
    *,
    n_features: int = 1000,
    n_words: float = 100,
    n_components: int | None = None,
    corpus_concentration: float = 5.0,
    doc_concentration: float = 1.0,
    topic_word_prior: float = 0.05,
    random_state: RandomStateLike = None,
) -> Bunch:
    """Draw a corpus from the hierarchical Dirichlet process topic model.

    ::

        v_k ~ Beta(1, gamma),  beta_k = v_k prod_{l<k} (1 - v_l)      k = 1, 2, ...
        phi_k ~ Dirichlet(eta, ..., eta)
        pi_j ~ DP(alpha, beta),  N_j ~ Poisson(n_words)
        z_jn ~ pi_j,  w_jn ~ phi_{z_jn}

    The draw is exact: there is no truncation, topics are drawn when a token first
    needs them.

    Parameters
    ----------
    n_samples : int, default=1000
        Number of documents. The first rows of `data` do not depend on it.
    n_features : int, default=1000
        Number of words in the vocabulary.
    n_words : float, default=100
        Mean number of tokens in a document, > 0. Documents may come out empty when it
        is small.
    n_components : int or None, default=None
        None draws topics from the process. An int instead fixes their number: that
        many topics of equal corpus-level weight, ``pi_j ~ Dirichlet(alpha / K, ...)``.
    corpus_concentration : float, default=5.0
        Concentration of the corpus-level process (gamma), > 0; larger values create
        more topics. Not used when `n_components` is an int.
    doc_concentration : float, default=1.0
        Concentration of the document-level processes (alpha), > 0; larger values mix
        more topics in a document.
    topic_word_prior : float, default=0.05
        Dirichlet parameter of the topics (eta), > 0; larger values spread each topic
        over more words.
    random_state : int, RandomState instance or None, default=None
        Determines the draw. Pass an int for the same corpus at every call.

    Returns
    -------
    corpus : :class:`~sklearn.utils.Bunch`
        Dictionary-like object with the attributes

        data : sparse matrix or array in CSR format, (n_samples, n_features)
            Word counts, int64; scikit-learn's `sparse_interface` setting chooses
            matrix or array.
        n_components : int
            K, the number of topics that have tokens (or `n_components` as given).
        topic_word_distr : ndarray of shape (K, n_features)
            Word probabilities of each topic (phi).
        topic_weights : ndarray of shape (K,)
            Corpus-level weights (beta), in the order of the sticks. What they lack to
            1 belongs to topics without tokens.
        doc_topic_distr : ndarray of shape (n_samples, K)
            Topic proportions of each document (pi). What a row lacks to 1 belongs to
            topics without tokens.
        doc_topic_counts : ndarray of shape (n_samples, K)
            Tokens of each topic in each document, int64.
        feature_names : list of str
            Name of each word.
        DESCR : str
            Description of the corpus.

    Raises
    ------
    InvalidParameterError
        A `ValueError`, if a parameter is outside of its domain.

    Notes
    -----
    With K topics drawn so far, ``(pi_j1, ..., pi_jK, remainder)`` has the distribution
    Dirichlet(alpha beta_1, ..., alpha beta_K, alpha (1 - sum beta_k)). Tokens that
    fall into the remainder break the next stick, and their share of it is again Beta
    distributed. Once all topics are known, `doc_topic_distr` is drawn given the
    counts, from Dirichlet(alpha beta_k + n_jk), which gives counts and proportions
    their joint distribution under the model.

    References
    ----------
    .. [1] Y. W. Teh, M. I. Jordan, M. J. Beal and D. M. Blei, "Hierarchical Dirichlet
       processes", Journal of the American Statistical Association 101, 2006.

    Examples
    --------
    >>> from skbnp.datasets import make_hdp
    >>> corpus = make_hdp(n_samples=50, n_features=200, random_state=0)
    >>> corpus.data.shape
    (50, 200)
    >>> corpus.topic_word_distr.shape == (corpus.n_components, 200)
    True
    """
    rng = check_random_state(random_state)
    topics = _Topics(n_features, topic_word_prior, corpus_concentration, n_components)
    topics.grow(rng, n_components or 0)
    rows, documents = [], []
    for length in (rng.poisson(n_words) for _ in range(n_samples)):
        rows.append(_draw_topic_counts(rng, length, topics, doc_concentration))
        drawn = [
            _draw_words(rng, n_tokens, topics.cumulated[k])
            for k, n_tokens in enumerate(rows[-1])
            if n_tokens
        ]
        documents.append(np.concatenate(drawn) if drawn else _NO_WORDS)

    counts = np.zeros((n_samples, len(topics.weights)), dtype=np.int64)
    for full, row in zip(counts, rows, strict=True):
        full[: len(row)] = row
    doc_topic = _draw_dirichlet(
        rng, topics.prior(doc_concentration) + np.pad(counts, ((0, 0), (0, 1)))
    )
    used = counts.any(axis=0) if n_components is None else np.full(n_components, True)
    return Bunch(
        data=count_words(documents, n_features),
        n_components=int(used.sum()),
        topic_word_distr=np.reshape(topics.distrs, (-1, n_features))[used],
        topic_weights=np.array(topics.weights)[used],
        doc_topic_distr=doc_topic[:, :-1][:, used],
        doc_topic_counts=counts[:, used],
        feature_names=[f"word{w}" for w in range(n_features)],
        DESCR=f"{n_samples} documents over {n_features} words, drawn from a topic "
        f"model with {used.sum()}\ntopics: the hierarchical Dirichlet process.",
    )


@validated(**_PARAMETERS)
def make_tree(
    n_samples: int = 200,
    *,
    n_features: int = 80,
    n_words: int = 60,
    branching: Sequence[int] = (3, 3),
    level_prior: float | Sequence[float] = 4.0,
    topic_word_prior: float = 0.05,
    random_state: RandomStateLike = None,
) -> Bunch:
    """Draw a corpus from a tree of topics, as the nested CRP has them.

    ::

        W_i ~ Dirichlet(eta, ..., eta)                 for each node i of the tree
        c_n ~ Uniform(leaves)                          the path of document n
        theta_n ~ Dirichlet(alpha_1, ..., alpha_L)     its levels
        z_nj ~ theta_n,  w_nj ~ W_i,  i the node of c_n at level z_nj

    Parameters
    ----------
    n_samples : int, default=200
        Number of documents. The first rows of `data` do not depend on it.
    n_features : int, default=80
        Number of words in the vocabulary.
    n_words : int, default=60
        Tokens in each document.
    branching : sequence of int, default=(3, 3)
        Number of children of each node, level by level from the root. The tree has
        ``len(branching) + 1`` levels (L); without any it is a single topic.
    level_prior : float or sequence of float, default=4.0
        Dirichlet parameter of the proportions of levels (alpha), > 0: one for every
        level or one for each, the root first. Larger values make documents similar.
    topic_word_prior : float, default=0.05
        Dirichlet parameter of the topics (eta), > 0; larger values spread each topic
        over more words.
    random_state : int, RandomState instance or None, default=None
        Determines the draw. Pass an int for the same corpus at every call.

    Returns
    -------
    corpus : :class:`~sklearn.utils.Bunch`
        Dictionary-like object with the attributes

        data : sparse matrix or array in CSR format, (n_samples, n_features)
            Word counts, int64; scikit-learn's `sparse_interface` setting chooses
            matrix or array.
        tree : :class:`~skbnp.trees.TreeView`
            The tree, depth-first. The weight of a node is the share of documents whose
            paths pass it.
        topic_word_distr : ndarray of shape (n_nodes, n_features)
            Word probabilities of each node (W).
        path : ndarray of int of shape (n_samples, n_levels)
            Rows of the nodes on each document's path (c), from the root to the leaf.
        target : ndarray of int of shape (n_samples,)
            Row of each document's leaf, the end of its path.
        level_proportions : ndarray of shape (n_samples, n_levels)
            Proportions of the levels in each document (theta).
        doc_topic_distr : ndarray of shape (n_samples, n_nodes)
            The same by nodes: zero off the path.
        feature_names : list of str
            Name of each word.
        DESCR : str
            Description of the corpus.

    Raises
    ------
    InvalidParameterError
        A `ValueError`, if a parameter is outside of its domain.
    ValueError
        If `branching` holds anything but positive integers, or `level_prior` is not a
        positive number for each level.

    Notes
    -----
    The model of [1]_ given the tree.

    **Departures from the paper.** There the tree is infinite and paths follow the
    nested Chinese restaurant process; here it is given, and all leaves are as probable.

    References
    ----------
    .. [1] C. Wang and D. M. Blei, "Variational inference for the nested Chinese
       restaurant process", Advances in Neural Information Processing Systems 22, 2009.

    Examples
    --------
    >>> from skbnp.datasets import make_tree
    >>> corpus = make_tree(branching=(2, 3), random_state=0)
    >>> corpus.tree
    TreeView(n_nodes=9, n_leaves=6, max_depth=2)
    >>> corpus.data.shape, corpus.path.shape
    ((200, 80), (200, 3))
    """
    rng, tree = check_random_state(random_state), RegularTree(branching, n_samples)
    prior = _level_prior(level_prior, tree.path.shape[1])
    topic_word = _draw_dirichlet(
        rng, np.full((tree.n_nodes, n_features), float(topic_word_prior))
    )
    levels, documents = np.empty(tree.path.shape), []
    for nodes, shares in zip(tree.draw_paths(rng), levels, strict=True):
        shares[:] = _draw_dirichlet(rng, prior)
        # Levels of tokens are not part of the truth returned, so they are summed out.
        cumulated = np.cumsum(shares @ topic_word[nodes])
        documents.append(_draw_words(rng, n_words, cumulated))

    doc_topic = np.zeros((n_samples, tree.n_nodes))
    np.put_along_axis(doc_topic, tree.path, levels, axis=1)
    return Bunch(
        data=count_words(documents, n_features),
        **tree.truth(),
        topic_word_distr=topic_word,
        level_proportions=levels,
        doc_topic_distr=doc_topic,
        feature_names=[f"word{w}" for w in range(n_features)],
        DESCR=f"{n_samples} documents of {n_words} words over {n_features} words, "
        f"drawn from a tree of\ntopics with {tree}. A document mixes the topics on\n"
        "the path from the root to its leaf.",
    )


@validated(**_PARAMETERS)
def make_subspace_tree(
    n_samples: int = 900,
    *,
    n_features: int = 30,
    branching: Sequence[int] = (3, 3),
    loading_std: float = 3.0,
    noise_std: float = 0.5,
    random_state: RandomStateLike = None,
) -> Bunch:
    """Draw rows from a tree of directions, as hierarchical component analysis has them.

    ::

        w_i ~ N(0, loading_std^2 I)          for each node i of the tree
        mu ~ N(0, loading_std^2 I)
        c_n ~ Uniform(leaves)                the path of row n
        x_n ~ N(0, I_L)                      its coordinates on the levels of the path
        t_n = mu + sum_l w_i x_nl + e_n,     i the node of c_n at level l
        e_n ~ N(0, noise_std^2 I)

    Parameters
    ----------
    n_samples : int, default=900
        Number of rows. The first rows of `data` do not depend on it.
    n_features : int, default=30
        Number of columns.
    branching : sequence of int, default=(3, 3)
        Number of children of each node, level by level from the root. The tree has
        ``len(branching) + 1`` levels (L); without any it is a single direction.
    loading_std : float, default=3.0
        Standard deviation of the entries of directions and mean, > 0.
    noise_std : float, default=0.5
        Standard deviation of the noise, > 0.
    random_state : int, RandomState instance or None, default=None
        Determines the draw. Pass an int for the same rows at every call.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
        Dictionary-like object with the attributes

        data : ndarray of shape (n_samples, n_features)
            The rows.
        tree : :class:`~skbnp.trees.TreeView`
            The tree, depth-first. The weight of a node is the share of rows whose paths
            pass it.
        components : ndarray of shape (n_nodes, n_features)
            Direction of each node (w).
        mean : ndarray of shape (n_features,)
            Mean of all rows (mu).
        path : ndarray of int of shape (n_samples, n_levels)
            Rows of the nodes on each path (c), from the root to the leaf.
        target : ndarray of int of shape (n_samples,)
            Row of the leaf, the end of the path.
        coordinates : ndarray of shape (n_samples, n_levels)
            Coordinates on the levels of the path (x).
        feature_names : list of str
            Name of each column.
        DESCR : str
            Description of the data.

    Raises
    ------
    InvalidParameterError
        A `ValueError`, if a parameter is outside of its domain.
    ValueError
        If `branching` holds anything but positive integers.

    Notes
    -----
    The model of section 2 of [1]_ given the tree.

    **Departures from the paper.** There the tree is infinite and paths follow the
    nested Chinese restaurant process; here it is given, and all leaves are as probable.

    References
    ----------
    .. [1] C. Wang and D. M. Blei, "Variational inference for the nested Chinese
       restaurant process", Advances in Neural Information Processing Systems 22, 2009.

    Examples
    --------
    >>> from skbnp.datasets import make_subspace_tree
    >>> drawn = make_subspace_tree(branching=(2, 3), random_state=0)
    >>> drawn.tree
    TreeView(n_nodes=9, n_leaves=6, max_depth=2)
    >>> drawn.data.shape, drawn.path.shape
    ((900, 30), (900, 3))
    """
    rng, tree = check_random_state(random_state), RegularTree(branching, n_samples)
    components = loading_std * rng.standard_normal((tree.n_nodes, n_features))
    mean = loading_std * rng.standard_normal(n_features)
    coordinates, data = np.empty(tree.path.shape), np.empty((n_samples, n_features))
    for nodes, along, row in zip(tree.draw_paths(rng), coordinates, data, strict=True):
        along[:] = rng.standard_normal(len(along))
        row[:] = mean + along @ components[nodes]
        row += noise_std * rng.standard_normal(n_features)

    return Bunch(
        data=data,
        **tree.truth(),
        components=components,
        mean=mean,
        coordinates=coordinates,
        feature_names=[f"feature{d}" for d in range(n_features)],
        DESCR=f"{n_samples} rows of {n_features} features, drawn from a tree of "
        f"directions with\n{tree}. A row lies in the space of the directions on\nthe "
        "path from the root to its leaf, but for noise of standard deviation "
        f"{noise_std}.",
    )


def _paths(branching: Sequence[int]) -> np.ndarray:
    """Number the nodes depth-first; list them on the path to each leaf."""
    given = np.array(branching, dtype=object)
    if given.ndim != 1 or not all(map(POSITIVE.is_satisfied_by, given)):
        raise ValueError(
            "branching must hold the number of children, an int of 1 or more, of the "
            f"nodes on each level above the leaves, got {branching!r}."
        )
    sizes = [1]  # nodes of a subtree, from the leaves up
    for n_children in given[::-1]:
        sizes.append(1 + n_children * sizes[-1])
    which = np.indices(given.tolist()).reshape(len(given), np.prod(given)).T
    steps = 1 + which * np.array(sizes[-2::-1], dtype=np.intp)
    return np.cumsum(np.insert(steps, 0, 0, axis=1), axis=1)


class RegularTree:
    """A tree whose nodes have as many children as others of their depth."""

    def __init__(self, branching: Sequence[int], n_samples: int):
        """Number the nodes, depth first."""
        self.paths = _paths(branching)
        self.n_nodes = self.paths[-1, -1] + 1
        self.parent = np.full(self.n_nodes, -1)
        self.parent[self.paths[:, 1:]] = self.paths[:, :-1]
        self.path = np.empty((n_samples, self.paths.shape[1]), dtype=np.intp)

    def __str__(self) -> str:
        return f"{self.n_nodes} nodes, {len(self.paths)} of them leaves"

    def draw_paths(self, rng: np.random.RandomState) -> Iterator[np.ndarray]:
        """Draw the path of each row, one after the other."""
        for nodes in self.path:
            nodes[:] = self.paths[rng.randint(len(self.paths))]
            yield nodes

    def truth(self) -> dict[str, Any]:
        """Return the tree, paths and leaves of rows."""
        passes = np.bincount(self.path.ravel(), minlength=self.n_nodes)
        tree = TreeView(self.parent, passes / len(self.path))
        return {"tree": tree, "path": self.path, "target": self.path[:, -1].copy()}


def _level_prior(level_prior: float | Sequence[float], n_levels: int) -> np.ndarray:
    """Return the Dirichlet parameter of each level."""
    given = np.array(level_prior, dtype=object)
    if isinstance(level_prior, Real):
        given = np.full(n_levels, level_prior)
    if given.shape != (n_levels,) or not all(map(_POSITIVE.is_satisfied_by, given)):
        raise ValueError(
            f"level_prior must be a positive number, or one for each of {n_levels} "
            f"levels, got {level_prior!r}."
        )
    return given.astype(np.float64)


class _Topics:
    """Topics drawn so far by stick breaking: weights, words, and the remaining mass."""

    def __init__(
        self,
        n_features: int,
        topic_word_prior: float,
        corpus_concentration: float,
        n_components: int | None,
    ) -> None:
        """Start without topics."""
        self.word_prior = np.full(n_features, float(topic_word_prior))
        self.corpus_concentration = corpus_concentration
        self.n_components = n_components
        self.weights: list[float] = []
        self.remaining = 1.0
        self.distrs: list[np.ndarray] = []
        self.cumulated: list[np.ndarray] = []

    def grow(self, rng: np.random.RandomState, n_topics: int = 1) -> None:
        """Break the next sticks and draw words for them."""
        for _ in range(n_topics):
            if self.n_components is None:
                share = rng.beta(1.0, self.corpus_concentration)
            else:
                share = 1 / (self.n_components - len(self.weights))
            self.weights.append(self.remaining * share)
            self.remaining *= 1 - share
            self.distrs.append(_draw_dirichlet(rng, self.word_prior))
            self.cumulated.append(np.cumsum(self.distrs[-1]))

    def prior(self, doc_concentration: float) -> np.ndarray:
        """Return the Dirichlet parameter of a document, that of the remainder last."""
        return doc_concentration * np.array([*self.weights, self.remaining])


def _draw_topic_counts(
    rng: np.random.RandomState, n_tokens: int, topics: _Topics, doc_concentration: float
) -> list[int]:
    """Draw the tokens of each topic in one document, with new topics where needed."""
    prior = topics.prior(doc_concentration)
    *counts, left = rng.multinomial(n_tokens, _draw_dirichlet(rng, prior))
    while left:
        # Tokens in the remainder: break its stick, and the document's part of it.
        topics.grow(rng)
        new = rng.binomial(
            left, _draw_dirichlet(rng, topics.prior(doc_concentration)[-2:])[0]
        )
        counts.append(new)
        left -= new
    return counts


def _draw_words(
    rng: np.random.RandomState, n_tokens: int, cumulated: np.ndarray
) -> np.ndarray:
    """Draw words from a distribution given by its cumulative sum."""
    where = rng.random_sample(n_tokens) * cumulated[-1]
    return np.searchsorted(cumulated, where, side="right")


def _draw_dirichlet(rng: np.random.RandomState, alpha: np.ndarray) -> np.ndarray:
    """Draw from the Dirichlet of each row of `alpha`; an entry of zero gives zero.

    In logs, by Gamma(a) = Gamma(a + 1) U^(1/a): a tiny parameter, whose Gamma draws
    would all be zero in double precision, still gives shares that sum to one.
    """
    with np.errstate(divide="ignore"):
        log_power = -rng.standard_exponential(alpha.shape) / alpha
    return softmax(np.log(rng.standard_gamma(alpha + 1)) + log_power, axis=-1)


@validated(**_PARAMETERS | {"n_features": [at_least(2)]})
def make_dependent_trees(
    n_samples: int = 400,
    *,
    n_epochs: int = 1,
    n_features: int = 40,
    branching: Sequence[int] = (3, 2),
    concentration: float = 120.0,
    prior_concentration: float = 100.0,
    parent_weight: float = 1.0,
    past_weight: float = 3.0,
    lifetimes: ArrayLike | None = None,
    random_state: RandomStateLike = None,
) -> Bunch:
    """Draw rows on the sphere from a tree of directions that drifts over epochs.

    ::

        theta_i^t ~ vMF of natural parameter kappa_0 (k_1 theta_p^t + k_2 theta_i^(t-1))
        z_n ~ Uniform(nodes there in epoch t)          the node of row n
        x_n ~ vMF(theta_z^t, beta)

    where p is the parent of node i; the root has a uniform direction at first, and
    where a node was not there in the epoch before its second part is missing.

    Parameters
    ----------
    n_samples : int, default=400
        Number of rows of each epoch. The first rows of an epoch do not depend on it.
    n_epochs : int, default=1
        Number of epochs.
    n_features : int, default=40
        Dimension of the rows (V), 2 or more.
    branching : sequence of int, default=(3, 2)
        Number of children of each node, level by level from the root.
    concentration : float, default=120.0
        Of rows around their direction (beta), >= 0; larger values bring them closer.
    prior_concentration : float, default=100.0
        Of directions around their parents and their past (kappa_0), >= 0; larger values
        bring children nearer to their parents, and epochs to each other.
    parent_weight, past_weight : float, default=1.0 and 3.0
        Shares of the parent (k_1) and of the past (k_2) in the former, >= 0. With
        k_2 = 1 a third of the directions are nearer to the past of another node than to
        their own, and names are uncertain even for known parameters.
    lifetimes : array-like of int of shape (n_nodes, 2), default=None
        First and last epoch of each node, depth-first; a parent is there as long as its
        children are. `None` is all epochs.
    random_state : int, RandomState instance or None, default=None
        Determines the draw. Pass an int for the same rows at every call.

    Returns
    -------
    corpus : :class:`~sklearn.utils.Bunch`
        Dictionary-like object with the attributes

        data : ndarray of shape (n_epochs * n_samples, n_features)
            Rows of length one, epoch by epoch.
        epochs : ndarray of int of shape (n_epochs * n_samples,)
            Epoch of each row.
        target : ndarray of int of shape (n_epochs * n_samples,)
            Node of each row (z), a row of the tree.
        tree : :class:`~skbnp.trees.TreeView`
            The tree, depth-first. The weight of a node is the share of rows at it or
            below.
        directions : ndarray of shape (n_epochs, n_nodes, n_features)
            Of each node in each epoch (theta); zero where it is not there.
        DESCR : str
            Description of the rows.

    Raises
    ------
    InvalidParameterError
        A `ValueError`, if a parameter is outside of its domain.
    ValueError
        If `branching` holds anything but positive integers, or `lifetimes` are not
        those of a tree within the epochs.

    Notes
    -----
    The emissions of [1]_, given the tree. **Departures from the paper.** Its sticks are
    left out: all nodes that are there are as probable.

    References
    ----------
    .. [1] Z. Hu, Q. Ho, A. Dubey and E. P. Xing, "Large-scale distributed dependent
       nonparametric trees", International Conference on Machine Learning, 2015.

    Examples
    --------
    >>> from skbnp.datasets import make_dependent_trees
    >>> corpus = make_dependent_trees(50, n_epochs=3, random_state=0)
    >>> corpus.tree
    TreeView(n_nodes=10, n_leaves=6, max_depth=2)
    >>> corpus.data.shape, corpus.directions.shape
    ((150, 40), (3, 10, 40))
    """
    entropy = draw_seed_entropy(random_state)
    parent = RegularTree(branching, 0).parent
    spans = _spans(lifetimes, parent, n_epochs)
    directions = np.zeros((n_epochs, len(parent), n_features))
    target = np.empty((n_epochs, n_samples), dtype=np.intp)
    data = np.empty((n_epochs, n_samples, n_features))
    rng = stream(entropy, Purpose.START)
    for epoch in range(n_epochs):
        past = directions[epoch - 1] if epoch else np.zeros_like(directions[0])
        there = (spans[:, 0] <= epoch) & (epoch <= spans[:, 1])
        for node in np.flatnonzero(there):
            natural = past_weight * past[node]
            if node > 0:
                natural = natural + parent_weight * directions[epoch, parent[node]]
            directions[epoch, node] = _draw_natural(prior_concentration * natural, rng)
        rows = stream(entropy, Purpose.SOME_DOCS, epoch)
        for row in range(n_samples):
            node = rows.choice(np.flatnonzero(there))
            target[epoch, row] = node
            data[epoch, row] = draw(directions[epoch, node], concentration, 1, rows)[0]
    weight = np.bincount(target.ravel(), minlength=len(parent)) / target.size
    for below in range(len(parent) - 1, 0, -1):
        weight[parent[below]] += weight[below]
    return Bunch(
        data=data.reshape(-1, n_features),
        epochs=np.repeat(np.arange(n_epochs), n_samples),
        target=target.ravel(),
        tree=TreeView(parent, weight),
        directions=directions,
        DESCR=f"{target.size} unit vectors of {n_features} features, {n_samples} in "
        f"each of {n_epochs}\nepochs, around the {len(parent)} directions of a tree: "
        "those of children are near their\nparents', and each is near where it was in "
        "the epoch before.",
    )


def _draw_natural(natural: NDArray, rng: np.random.Generator) -> NDArray:
    """Draw a unit vector by its natural parameter; uniformly if that is zero."""
    strength = float(np.linalg.norm(natural))
    mean = natural / strength if strength > 0.0 else np.eye(len(natural))[0]
    return draw(mean, strength, 1, rng)[0]


def _spans(lifetimes: ArrayLike | None, parent: NDArray, n_epochs: int) -> NDArray:
    """First and last epoch of each node."""
    if lifetimes is None:
        return np.tile([0, n_epochs - 1], (len(parent), 1))
    spans = np.asarray(lifetimes)
    if (
        spans.shape != (len(parent), 2)
        or spans.dtype.kind not in "iu"
        or (spans[:, 0] > spans[:, 1]).any()
        or spans.min() < 0
        or spans.max() >= n_epochs
        or (spans[0] != [0, n_epochs - 1]).any()
        or (spans[parent[1:], 0] > spans[1:, 0]).any()
        or (spans[parent[1:], 1] < spans[1:, 1]).any()
    ):
        raise ValueError(
            f"lifetimes must hold the first and the last epoch, of {n_epochs}, of each "
            f"of {len(parent)} nodes, the root in all, parents as long as their "
            f"children, got {lifetimes!r}."
        )
    return spans
