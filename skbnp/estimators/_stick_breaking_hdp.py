"""Estimator of the HDP with sticks in corpus and documents, variational inference."""

from dataclasses import dataclass, field

import numpy as np
from scipy.special import softmax
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning

from skbnp.distributions import mean_weights
from skbnp.estimators import _base
from skbnp.estimators._known_topics import HDPPriors, base_prior, n_given
from skbnp.estimators._saved import check_number
from skbnp.estimators._variational import DocumentParameters, VariationalTopicModel
from skbnp.inference.engine import NOTHING, DocumentStarts, Learner, RunningAverage
from skbnp.inference.executor import Executor
from skbnp.inference.protocols import NO_MOVES, Corpus, StepInput
from skbnp.models import hdp_sticks
from skbnp.rows.batch import Batch
from skbnp.utils.typing import MatrixLike
from skbnp.utils.validation import StrOptions
from skbnp.utils.warnings import warn_caller

#: Share of the expected tokens that may still be of the start, spread over all topics:
#: those with 1e-4 of all tokens count as in use, and 150 by default share it.
MOST_OF_START = 0.01

#: Of the tokens at the start, where a model gives topics and there may be others.
SHARE_OF_OTHERS = 0.1
#: Tables of a document in a file, at most.
MOST_TABLES = 10**6


@dataclass(kw_only=True, eq=False, repr=False)
class _Own:
    """Parameters declared for this estimator alone."""

    max_components: int = field(default=150, kw_only=False)
    max_doc_components: int = field(default=15, kw_only=False)
    learning_method: str = "online"
    learn_priors: bool | str = "concentrations"
    batch_size: int = 256
    warm_up: int = 5
    init: str | BaseEstimator = "docs"


@dataclass(kw_only=True, eq=False, repr=False)
class _Parameters(DocumentParameters, HDPPriors, _Own):
    """Parameters of StickBreakingHDP."""

    learning_offset: float = 64.0
    max_iter: int = 20


class StickBreakingHDP(_Parameters, VariationalTopicModel):
    """Hierarchical Dirichlet process topic model by stick breaking, variational.

    A topic model in which the corpus breaks a stick into the weights of its topics, and
    each document breaks one of its own into the weights of a few tables, which serve
    topics of the corpus. Both are truncated: at `max_components` and
    `max_doc_components`. The generative story, with the symbols of [1]_:

    - corpus sticks beta'_k ~ Beta(1, gamma), weights beta; topics phi_k ~
      Dirichlet(eta);
    - each document: for each table t a topic c_jt ~ beta; sticks pi'_jt ~
      Beta(1, alpha), weights pi_j;
    - each token: table z ~ pi_j, word w ~ phi_k of its topic k = c_jz.

    `fit` maximises the evidence lower bound of [1]_ over a fully factorised
    distribution: "batch" learning by coordinate ascent, "online" learning by natural
    gradients of minibatches.

    Parameters
    ----------
    max_components : int, default=150
        Topics (K, the truncation of the corpus sticks), at least 1. Superfluous ones
        fade, see `n_active_components_`.
    max_doc_components : int, default=15
        Tables of a document (T, the truncation of its sticks), at least 1; so many
        topics a document can mix.
    learning_method : {"online", "batch"}, default="online"
        "online": one update per minibatch, with decreasing steps (Eqs. (22) to (28) of
        [1]_); for streams and large corpora. "batch": one update per pass, and merges
        of topics of similar words; the bound does not fall after the warm-up.
    learn_priors : bool or "concentrations", default="concentrations"
        Whether to learn both concentrations and the topic prior (True), the
        concentrations alone, or nothing (False), as in [1]_.
    batch_size : int, default=256
        Documents of a minibatch, at most; minibatches of a pass have equal sizes.
    warm_up : int, default=5
        First passes in which documents see log E[phi] in place of E[log phi], see
        Notes; 0 for none, as in [1]_. In `partial_fit` the warm-up lasts until
        ``warm_up * total_samples`` documents are seen, or 10,000 where
        `total_samples` is None.
    init : {"docs", "random"} or fitted topic model, default="docs"
        Start each topic from a random document, from noise, or from the topics of a
        model of the same columns (in a `FrozenEstimator` where it would be cloned).
    doc_concentration : float, default=1.0
        Concentration of the sticks of a document (alpha), in [1e-100, 1e10]; larger
        values spread it over more tables. The value that the first fit starts from.
    corpus_concentration : float, default=1.0
        Concentration of the corpus sticks (gamma), in [1e-100, 1e10]; larger values
        leave more weight to rare topics. A starting value, likewise.
    topic_word_prior : float, dict, array-like or KnownTopics, default=0.05
        Initial Dirichlet parameter of topics over terms (eta), in [1e-100, 1e10];
        smaller values make more specific topics. Or known topics, which come first: a
        dict of names and seed words, or an array (n_known, n_features) of priors;
        :class:`skbnp.KnownTopics` has their options.
    corpus_concentration_prior, doc_concentration_prior : (float, float), default=(1, 1)
        Shape and rate of the Gamma priors of the concentrations, both > 0.
    learning_offset : float, default=64.0
        Offset of the step sizes rho_t = (learning_offset + t)^-learning_decay (tau),
        >= 0; larger values give early minibatches less weight.
    learning_decay : float, default=0.6
        Decay of the step sizes (kappa), in [0.5, 1]. Convergence theory asks for more
        than 0.5.
    total_samples : float or None, default=None
        Documents of the stream that `partial_fit` learns from (D), > 0. None means
        those seen so far. `fit` uses the number of documents of `X`.
    max_iter : int, default=20
        Passes over the data in `fit`, warm-up included.
    tol : float, default=1e-4
        `fit` ends when the bound changes by less than `tol`, relatively, between two
        passes after the warm-up. 0 always makes `max_iter` passes.
    sparse_output : bool, default=False
        Whether `transform` returns a csr_array, of topics with tokens alone.
    n_jobs : int or None, default=None
        Threads of the document step, as in scikit-learn. Results do not depend on it.
    random_state : int, RandomState instance or None, default=None
        Start and order of documents. The same int gives the same bits.
    verbose : int, default=0
        Passes between messages; 0 for none. For a progress bar use
        ``set_callbacks(sklearn.callback.ProgressBar())`` (scikit-learn 1.9 or later).
    warm_start : bool, default=False
        Whether `fit` goes on from the present topics.
    max_doc_update_iter : int, default=100
        Iterations for one document, at most.
    mean_change_tol : float, default=1e-3
        The iteration of a document ends when the tokens of its tables change by less
        than this per token.

    Attributes
    ----------
    components_ : ndarray of shape (n_components_, n_features)
        Variational Dirichlet parameters of the topics (lambda): expected counts of
        each term plus `topic_word_prior_`. Computed at each access.
    topic_word_distr_ : ndarray of shape (n_components_, n_features)
        Expected topics; rows sum to one. Computed at each access.
    topic_weights_ : ndarray of shape (n_components_,)
        Expected corpus-level weights E[beta_k]; they sum to one.
    n_components_ : int
        Number of topics: `max_components`, less those merged or dropped.
    component_ids_ : ndarray of shape (n_components_,)
        The number of each topic, which it keeps for life and by which summaries,
        figures, `get_feature_names_out` and edits refer to it.
    lineage_ : list of named tuples (step, kind, parents, children)
        Where each id came from: the start, then edits.
    n_active_components_ : int
        Topics with at least max(1, 1e-4 of all) expected tokens.
    doc_concentration_, corpus_concentration_ : float
        Values in force after learning.
    topic_word_prior_ : float or ndarray of shape (n_components_, n_features)
        Value in force after learning. Where topics are known, the prior of each.
    elbo_ : float
        Bound of the training data in nats per token; after online learning that of the
        recent documents, weighted as the step sizes weigh them. Not to be compared
        between truncations, see Notes.
    converged_ : bool
        Whether `tol` ended the last `fit`.
    history_ : dict of lists
        One entry per update (minibatch or batch pass): `step`, `seconds` (elapsed wall
        time), `n_components`, `elbo` (nats per token; evaluated once per pass of `fit`,
        nan in between and in `partial_fit`), and counts of moves: merges alone.
        Streams keep 10,000 entries at most, fewer of the older half.
    n_iter_ : int
        Passes made by the last `fit`; calls of `partial_fit` add one.
    n_features_in_ : int
        Size of the vocabulary.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the terms, if `X` had them.

    See Also
    --------
    HDP : Direct assignment; finds the number of topics by splits, merges and births.

    Notes
    -----
    The updates are Eqs. (15) to (28) of [1]_, the bound includes all constants.
    `doc/derivations/stick_breaking_hdp.rst` lists the departures. Bounds of different
    truncations belong to different models: compare these by `score`. `transform` and
    `score` use the Dirichlet prior alpha E[beta] of topics; `doc_components` shows the
    tables. `partial_fit` keeps no documents; the ids, 0 to K - 1, stay.

    References
    ----------
    .. [1] Chong Wang, John Paisley and David M. Blei, "Online Variational Inference for
       the Hierarchical Dirichlet Process", AISTATS 2011.

    Examples
    --------
    >>> from skbnp import StickBreakingHDP
    >>> from skbnp.datasets import make_bars
    >>> X = make_bars(300, random_state=0).data
    >>> hdp = StickBreakingHDP(150, learning_method="batch", random_state=0).fit(X)
    >>> hdp.n_components_ < 150
    True
    """

    _parameter_constraints: dict = _base.constraints_of(
        _Parameters,
        max_components=[_base.NUMBER],
        max_doc_components=[_base.NUMBER],
        learning_method=[StrOptions({"batch", "online"})],
    )

    _evaluation_step = hdp_sticks.TableStep
    _size_name = "max_components"

    # -- learning ---------------------------------------------------------------------

    def _make_model(self) -> hdp_sticks.StickHDP:
        return hdp_sticks.StickHDP(self.max_doc_components, **self._learned())

    def _start_state(self, n_docs: float, shares) -> hdp_sticks.StickState:
        """Return the state of nearly equal topic weights, slowly decreasing.

        Or with the shares of given topics.
        """
        n_components, tables = self.max_components, n_docs * self.max_doc_components
        if shares is None:
            shares = np.linspace(1.05, 0.95, n_components)
            tables /= n_components
        return hdp_sticks.StickState(
            tables=tables * np.maximum(shares, 1e-10),
            doc_concentration=float(self.doc_concentration),
            corpus_concentration=float(self.corpus_concentration),
            topic_word_prior=base_prior(self.topic_word_prior),
        )

    def _component_limit(self) -> float:
        """Raise if init has more topics than the truncation; no move adds any."""
        n_topics = 0 if isinstance(self.init, str) else n_given(self.init)
        if n_topics > self.max_components:
            raise ValueError(
                f"max_components={self.max_components} must be at least the {n_topics} "
                "topics of init: increase it, or drop some of them."
            )
        return np.inf

    def _filled(self, topics, weights, corpus, seen, rng):
        """Append topics of documents to given ones, up to `max_components`."""
        n_more = self.max_components - len(weights)
        shares = weights / max(weights.sum(), 1e-300)
        if n_more == 0:
            return topics, shares
        total = topics.sum()
        more = self._start_topics(corpus, seen.words, n_more, rng)
        more *= SHARE_OF_OTHERS * total / n_more / np.maximum(more.sum(axis=0), 1e-300)
        topics = np.hstack([(1.0 - SHARE_OF_OTHERS) * topics, more])
        others = np.full(n_more, SHARE_OF_OTHERS / n_more)
        return topics, np.concatenate([(1.0 - SHARE_OF_OTHERS) * shares, others])

    def _resumed(self, model, *, in_fit):
        if not in_fit:  # a warm start says so itself
            self._check_size("in partial_fit")
        return super()._resumed(model, in_fit=in_fit)

    def _make_learner(self, posterior, around, goes_on):
        """Return the learner of `fit`: online or batch."""
        (counts, local_step), corpus = around, Corpus(around[0])
        is_batch, n_docs = self.learning_method == "batch", counts.shape[0]
        return Learner(
            posterior,
            corpus,
            self._fit_schedule(posterior, corpus),
            local_step,
            RunningAverage(DocumentStarts() if is_batch else NOTHING),
            hdp_sticks.BoundMerges() if is_batch else NO_MOVES,
            warm_up=0 if goes_on else self.warm_up * n_docs,
        )

    def _warn_if_not_converged(self, monitor) -> None:
        """Warn if the bound has not converged, or topics are mostly their start."""
        super()._warn_if_not_converged(monitor)
        if self.learning_method != "online" or self.tol == 0:
            return
        updates = np.arange(self._posterior.n_steps)
        steps = np.maximum(self.learning_offset + updates, 1.0) ** -self.learning_decay
        left = float(np.prod(1.0 - steps))
        if left > MOST_OF_START and self.n_iter_ == self.max_iter:
            warn_caller(
                f"After {len(updates)} updates {left:.0%} of what topics hold is still "
                "of their start, so that all seem in use. Increase max_iter, decrease "
                'batch_size or learning_offset, or set learning_method="batch".',
                ConvergenceWarning,
            )

    # -- loading ----------------------------------------------------------------------

    _saved_parts = {
        "model": hdp_sticks.StickHDP,
        "state": hdp_sticks.StickState,
        "global_stats": hdp_sticks.StickStats,
    }

    def _check_saved(self):
        sizes, n_tables = super()._check_saved(), self._posterior.model.n_tables
        check_number("n_tables", n_tables, least=1, most=MOST_TABLES)
        last = self._posterior.state.last
        check_number("last", last, least=-1, most=sizes["n_components"] - 1)
        return sizes

    # -- evaluation -------------------------------------------------------------------

    def elbo_terms(self, X: MatrixLike) -> dict[str, float]:
        """Evidence lower bound by its terms, see `elbo`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Counts; rows are documents.

        Returns
        -------
        terms : dict of str to float
            In nats per token of `X`:

            - "words": E[log p(w | z, c, phi)] - KL(q(phi) || p(phi));
            - "tables": E[log p(c | beta)] and the entropy of q(c);
            - "assignments": E[log p(z | pi)] - KL(q(pi') || p(pi'));
            - "entropy": of q(z);
            - "weights": -KL(q(beta') || p(beta'));
            - "doc_concentration", "corpus_concentration": their log priors up to a
              constant, where they are learned.
        """
        return self._elbo_terms(X)

    def doc_components(self, X: MatrixLike) -> tuple[np.ndarray, np.ndarray]:
        """Infer the tables of documents: weights of sticks, and topics served.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Counts; rows are documents.

        Returns
        -------
        weights : ndarray of shape (n_samples, max_doc_components)
            Expected weights of the tables E[pi_jt]; rows sum to one. Tables with the
            most tokens come first, unless the last stick is in use and another order
            has the higher bound.
        topic_distr : ndarray of shape (n_samples, max_doc_components, n_components_)
            Topics that each table serves (the paper's phi, or varphi); they sum to one.
            Tables that a document does not use follow the corpus. float32 if `X` is,
            otherwise float64, as the weights.
        """
        counts, dtype = self._check_counts(X, "doc_components")
        posterior, n_tables = self._posterior, self._posterior.model.n_tables
        state = posterior.state
        batch = Batch.from_counts(counts, state.n_components)
        with Executor(self.n_jobs) as executor:
            given = StepInput(posterior, batch, self._local_stop(), executor)
            step = hdp_sticks.TableStep.prepare(given)
            tables = hdp_sticks.Tables.joined(list(step.visit(batch.blocks, executor)))
        tokens = tables.by_document(n_tables)
        behind = np.cumsum(tokens[:, ::-1], axis=1)[:, -2::-1]
        weights = mean_weights(1.0 + tokens[:, :-1], state.doc_concentration + behind)
        shape = (len(tokens), n_tables, state.n_components)
        topics = np.broadcast_to(softmax(state.log_weights), shape).copy()
        rows = np.repeat(np.arange(len(tokens)), np.diff(tables.limits))
        places = np.arange(len(rows)) - tables.limits[rows]
        topics[rows, places] = 0.0
        n_served = np.diff(tables.served)
        topics[
            np.repeat(rows, n_served), np.repeat(places, n_served), tables.topics
        ] = tables.phi
        topics = topics[:, :, posterior.rows]
        return weights.astype(dtype, copy=False), topics.astype(dtype, copy=False)
