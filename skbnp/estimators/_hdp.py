"""Estimator of the HDP, direct assignment or collapsed, by variational inference."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning

from skbnp.components.word_topics import SeenWords
from skbnp.estimators import _base, _cautions, _known_topics, _variational
from skbnp.estimators._base import LabelledDocumentsMixin, labels_of
from skbnp.estimators._checkpoints import FitAccount
from skbnp.estimators._saved import check_type
from skbnp.inference import engine
from skbnp.inference.engine import Learner, SearchLearner
from skbnp.inference.executor import Executor
from skbnp.inference.protocols import NO_MOVES, Corpus, DocumentLocalStep, Moves
from skbnp.models.hdp import births
from skbnp.models.hdp import groups as hdp_groups
from skbnp.models.hdp import model as hdp
from skbnp.models.hdp import posterior as records
from skbnp.models.hdp.burstiness import NO_BURSTINESS
from skbnp.models.hdp.cross_fit import OF_ALL_FITS, CrossFittedTrials, hold_out_each
from skbnp.models.hdp.emerging import Change, faded_topics, new_topics
from skbnp.models.hdp.fold_in import Documents, Seated, fold_in_posterior
from skbnp.models.hdp.held_out import (
    has_few_judges,
    has_few_tokens,
    has_short_documents,
    hold_out,
)
from skbnp.models.hdp.held_out_trials import REMEMBERED, HeldOutTrials
from skbnp.models.hdp.local import CollapsedStep, DocumentStep
from skbnp.models.hdp.moves import PrintedMoves, SplitMerge
from skbnp.models.hdp.stream_trials import StreamTrials
from skbnp.rows.survey import ENOUGH_DOCS
from skbnp.utils import validation as valid
from skbnp.utils.labels import Factors, Label
from skbnp.utils.random import Purpose, stream
from skbnp.utils.ranges import Unlimited
from skbnp.utils.typing import Array, Ints, MatrixLike
from skbnp.utils.warnings import warn_caller

#: Moves of `split_merge=True`.
DEFAULT_MOVES = SplitMerge()
#: Share of the document in a topic that starts from one; the rest is the corpus.
DOC_SHARE = 0.2
#: Topics that births reach at most, unless requested.
MOST_TOPICS = 1000
#: Passes over everything after trials. In the collapsed family the second half is
#: averaged; in the mean-field family the first have mean weights, and some are exact.
FINAL_PASSES, FINAL_PASSES_MEAN_FIELD, FINAL_EXACT_PASSES = 6, 8, 3
#: Documents of a minibatch of a stream that has a whole step: those of calls of 100
#: that are not held out. Documents of smaller ones weigh as much each; in calls of 20
#: abstracts end .10 nats lower otherwise. With all of the usual ones (128)
#: topics that come late are learned slowly.
FULL_SIZE = 80
#: Sweeps of the sampler from which topics of short documents start, see
#: `benchmarks/results/short_documents.md`; a quarter in each split of few documents.
N_SWEEPS = 200


@dataclass(frozen=True, slots=True)
class Plan:
    """What the parameters of an `HDP` ask of a fit."""

    is_collapsed: bool
    moves: SplitMerge | None  # None: the number of topics stays
    held_out_moves: SplitMerge | None  # those that held-out documents judge
    is_printed: bool  # whether the bound of minibatches judges them, as in the paper
    warm_up: int  # first passes with mean weights
    final_passes: int  # over everything, after trials
    learns_burstiness: bool
    of_trials: dict[str, Any]  # see `HeldOutTrials`

    @property
    def stream_moves(self) -> SplitMerge | None:
        """Moves that documents which a stream keeps judge."""
        moves = self.held_out_moves
        return moves if moves is not None and moves.reservoir_tokens > 0 else None

    def has_time_for_trials(self, n_passes: int) -> bool:
        """Whether a fit of so many passes has trials by held-out documents."""
        moves = self.held_out_moves
        if moves is None:
            return False
        return n_passes >= 2 * moves.trial_passes + self.final_passes

    def may_grow(self, n_passes: int) -> bool:
        """Whether such trials may add topics."""
        moves = self.held_out_moves
        return moves is not None and moves.births and self.has_time_for_trials(n_passes)


@dataclass(kw_only=True, eq=False, repr=False)
class _Own:
    """Parameters declared for this estimator alone."""

    n_components: int = field(default=300, kw_only=False)
    max_components: int | None = None
    variational_family: str = "collapsed"
    learning_method: str = "online"
    burstiness: bool | str = "auto"
    learn_priors: bool | str = "auto"
    split_merge: bool | SplitMerge = True
    min_gain: float = 0.005
    batch_size: int | str = "auto"
    warm_up: int = 5
    init: str | BaseEstimator = "docs"


@dataclass(kw_only=True, eq=False, repr=False)
class _Parameters(_variational.DocumentParameters, _known_topics.HDPPriors, _Own):
    """Parameters of HDP."""

    learning_decay: float = 0.5


class HDP(_Parameters, LabelledDocumentsMixin, _variational.VariationalTopicModel):
    """Hierarchical Dirichlet process topic model, by variational inference.

    Each document mixes topics, and all documents share them. There are infinitely many
    topics; how many are represented is learned. With the symbols of [1]_: weights
    beta ~ GEM(gamma), topics phi_k ~ Dirichlet(eta), proportions of a document
    pi_j ~ DP(alpha, beta); each token has a topic z ~ pi_j and a word w ~ phi_z.

    Parameters
    ----------
    n_components : int, default=300
        Topics to start from, at least 1, and at most `max_components`. With
        `split_merge` the number found hardly depends on it; without, it is the number
        of topics.
    max_components : int or None, default=None
        Topics that moves may reach, at most. None: 1,000, or `n_components` if larger.
    variational_family : {"collapsed", "mean_field"}, default="collapsed"
        "collapsed" integrates topics and proportions out [2]_ and predicts text better.
        "mean_field" is the algorithm of [1]_, with its lower bound of the evidence.
    learning_method : {"online", "memoized", "batch"}, default="online"
        "online": one update per minibatch, with decreasing steps. "memoized": one per
        minibatch, whose former statistics are subtracted, so that the bound is exact;
        needs twice the memory of the data. "batch": the corpus is one minibatch.
    burstiness : "auto" or False, default="auto"
        Collapsed family: whether documents may repeat words beyond their topics [3]_;
        topics then explain first uses. "auto": if that predicts clearly better.
    learn_priors : bool, "auto" or "concentrations", default="auto"
        True: both concentrations and eta; "concentrations": not eta; False: none.
        "auto": eta as well where held-out documents judge (collapsed, `split_merge`).
    split_merge : bool or SplitMerge, default=True
        True: other numbers of topics are tried, and held-out documents judge. A
        `SplitMerge` has the details; `SplitMerge.paper()` are the moves of [1]_.
    min_gain : float, default=0.005
        Share, in [0, 0.5], of what all topics gain in held-out log probability over one
        topic that a topic must bring, or trials merge or end it. Smaller: more, finer
        topics. If one of many ends, others explain some of its words: of topics of
        equal weights about 1 / (2 `min_gain`) are kept at most. 0: all that predict,
        however little.
    batch_size : int or "auto", default="auto"
        Documents of a minibatch, at most. "auto": 128, more of short or many documents.
    warm_up : int, default=5
        First passes of the mean-field family in which documents use mean topics.
    init : {"docs", "random"} or fitted topic model, default="docs"
        Start each topic from a random document, from noise, or from the topics of a
        model of the same columns (in a `FrozenEstimator` where it would be cloned).
        With "docs" fits that may add topics to documents of fewer than 20 tokens, on
        average, with at most 300,000 in all, start from topics of the sampler of
        `GibbsHDP`, however many these are, and are judged by the same documents
        whatever the seed.
    doc_concentration, corpus_concentration : float, default=1.0
        Initial concentrations (alpha, gamma), in [1e-100, 1e10]; larger values mix more
        topics in a document, and leave more weight to rare topics.
    topic_word_prior : float, dict, array-like or KnownTopics, default=0.05
        Initial Dirichlet parameter of topics over terms (eta), in [1e-100, 1e10];
        smaller values make more specific topics. Or known topics, which come first: a
        dict of names and seed words, or an array (n_known, n_features) of priors;
        :class:`skbnp.KnownTopics` has their options.
    corpus_concentration_prior, doc_concentration_prior : (float, float), default=(1, 1)
        Shape and rate of the Gamma priors of the concentrations, both > 0.
    learning_offset, learning_decay : float, default=1.0, 0.5
        Offset (tau) >= 0 and decay (kappa) in [0.5, 1] of the step sizes
        (offset + t)^-decay.
    total_samples : float or None, default=None
        Documents of the stream that `partial_fit` learns from, > 0; None: those so far,
        as always where documents that are kept judge trials.
    max_iter : int, default=100
        Passes of `fit`, at most; below 14 (mean-field: 16) without trials.
    tol : float, default=1e-4
        `fit` ends when `log_predictive_` (or `elbo_`) changes by less than this,
        relatively, in a pass. 0 makes `max_iter` passes.
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
    max_doc_update_iter, mean_change_tol : int and float, default=100, 1e-3
        Iterations for one document, at most (10 in collapsed learning), and the change
        of its topic counts per token that ends them.

    Attributes
    ----------
    components_ : ndarray of shape (n_components_, n_features)
        Variational Dirichlet parameters of the topics (lambda): expected counts of
        each term plus `topic_word_prior_`. Computed at each access.
    topic_word_distr_ : ndarray of shape (n_components_, n_features)
        Expected topics; rows sum to one. Computed at each access.
    topic_weights_ : ndarray of shape (n_components_,)
        Corpus-level weights (beta); the rest to one belongs to topics not represented.
    n_components_ : int
        Number of represented topics.
    n_active_components_ : int
        Topics with at least max(1, 1e-4 of all) expected tokens.
    n_components_range_ : tuple of (int, int) or None
        Smallest and largest number of topics, of those that reductions compared, within
        one standard error of the best, less `min_gain` of each. Another seed may end
        outside. None after edits.
    n_components_gains_ : dict of int to float
        Held-out gain over one topic, nats per token, of the numbers of topics that
        trials compared, if `min_gain` is not 0; empty after edits.
    groups_ : ndarray of shape (n_groups,)
        Labels of groups, if `fit` had some, in their order. Of several factors a dict
        of these by name, like the next two attributes.
    group_weights_ : ndarray of shape (n_groups, n_components_)
        Topic weights of each group; the rest to one as in `topic_weights_`, which all
        have if groups predict no better.
    group_concentration_ : float
        Concentration of the weights of groups around those of the corpus.
    factor_weights_ : ndarray of shape (1 + n_factors,)
        Shares of the corpus and of the groups of each factor in the prior of a
        document. One and zeros if groups predict no better than the corpus.
    emerged_component_ids_ : ndarray of int
        Ids of topics that `partial_fit` began for documents predicted badly, in order.
    component_ids_ : ndarray of shape (n_components_,)
        The number of each topic, which it keeps for life and by which summaries,
        figures, `get_feature_names_out` and edits refer to it.
    lineage_ : list of named tuples (step, kind, parents, children)
        Origin and end of each id: the start, births, splits, merges and prunes.
    doc_concentration_, corpus_concentration_ : float
        Values in force after learning.
    topic_word_prior_ : float or ndarray of shape (n_components_, n_features)
        Value in force after learning. Where topics are known, the prior of each.
    prediction_concentration_, background_weight_ : float
        Concentration of documents in `score` and `transform`, and weight of the mean
        topic, against equal words, in the topic prior of `score`.
    word_discount_, word_concentration_ : float
        With T first uses among N tokens of a document, the next token is a first use
        with probability (c + d T) / (c + N). d = 0 and c = inf: none is repeated.
    elbo_, log_predictive_ : float
        Mean-field: bound of the (online: recent) training data, nats per token.
        Collapsed: log probability of a training token given all others, in nats.
    converged_ : bool
        Whether the last `fit` ended by `tol`, with no trial left.
    history_ : dict of lists
        Per update: `step`, `seconds`, `n_components`, `n_births`, `n_splits`,
        `n_merges`, and once per pass `elbo` or `log_predictive`, else nan.
    n_iter_ : int
        Passes made by the last `fit`; calls of `partial_fit` add one.
    n_features_in_ : int
        Size of the vocabulary.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the terms, if `X` had them.

    See Also
    --------
    GibbsHDP : The same model by sampling, with a posterior of the number of topics.
    reduce_topics : A fit with fewer topics, which are sums of its own.

    Notes
    -----
    The updates are Eqs. (3) to (7) of [1]_ (mean-field) or the zero-order step of [2]_.
    `doc/derivations/hdp.rst` has the equations, the trials and departures from [1]_.
    `partial_fit` begins with as many topics as its first documents tell. Until 100 have
    chosen, other numbers are tried at each doubling; from 250 on topics start again
    then, beside the stream, and held-out documents choose. Between these topics are
    born from documents that are predicted badly. In fits to
    fewer than 10,000 tokens (25,000 of short documents) each document judges once.

    References
    ----------
    .. [1] Michael Bryant and Erik B. Sudderth, "Truly Nonparametric Online Variational
       Inference for Hierarchical Dirichlet Processes", Advances in Neural Information
       Processing Systems 25, 2012.
    .. [2] Arthur Asuncion, Max Welling, Padhraic Smyth and Yee Whye Teh, "On Smoothing
       and Inference for Topic Models", Uncertainty in Artificial Intelligence, 2009.
    .. [3] Wray Buntine and Swapnil Mishra, "Experiments with Non-parametric Topic
       Models", KDD 2014.

    Examples
    --------
    >>> from skbnp import HDP
    >>> from skbnp.datasets import make_bars
    >>> X = make_bars(300, random_state=0).data
    >>> hdp = HDP(n_components=40, random_state=0).fit(X)
    >>> hdp.transform(X).shape == (300, hdp.n_components_)
    True
    """

    # Fitted
    _posterior: records.HDPPosterior
    prediction_concentration_: float
    word_discount_: float
    word_concentration_: Unlimited

    _posterior_class = records.HDPPosterior
    _parameter_constraints: dict = _base.constraints_of(
        _Parameters,
        learn_priors=["boolean", valid.StrOptions({"auto", "concentrations"})],
        n_components=[_base.NUMBER],
        variational_family=[valid.StrOptions({"collapsed", "mean_field"})],
        batch_size=[_base.NUMBER, _base.AUTO],
        split_merge=["boolean", SplitMerge],
    )

    # -- learning ---------------------------------------------------------------------

    @valid.fit_context(prefer_skip_nested_validation=True)
    def fit(
        self,
        X: MatrixLike,
        y: object = None,
        sample_weight: ArrayLike | None = None,
        *,
        groups: ArrayLike | int | None = None,
    ) -> Self:
        """Learn topics from all documents, then what groups of these use.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Counts, or other non-negative weights; rows are documents.
        y : None
            Ignored, but handed on to callbacks.
        sample_weight : array-like of shape (n_samples,), default=None
            Whole numbers: a row of weight w counts as w copies of it, and one of weight
            0 is left out. None is 1 for all. Fractions raise ValueError: a row is in a
            minibatch, or held out, as a whole.
        groups : array-like, (n_samples,) or (n_samples, n_factors), default=None
            Labels of the documents, such as journals, and of further factors, such as
            years; columns of a frame are factors by name. None, nan or NA is a missing
            one. Each group has topic weights of its own, learned given the topics, and
            in `transform` and `score` they are the prior of its documents if held-out
            documents are predicted better by them, by two standard errors. Topics do
            not depend on labels. An int: so many kinds of documents without labels, of
            at least 2, which are inferred.

        Returns
        -------
        self : object
            The fitted estimator. After an interrupt (Ctrl-C) it holds the last
            complete update.

        Raises
        ------
        ValueError
            If `X` has negative, infinite or missing values, no rows or no columns,
            `groups` has not one label for each row in each factor, or
            `variational_family` is "mean_field" and there are `groups`, or a parameter
            is outside its range.

        Warns
        -----
        ConvergenceWarning
            If different documents are too few to tell how many topics there are.
        UserWarning
            If values are no counts or multiples of these, or a column is no word but a
            number of the row, a total, or most of all tokens.
        """
        further = self._further(X, sample_weight, groups, in_fit=True)
        return self._fit(X, y, further, sample_weight=sample_weight)

    @valid.fit_context(prefer_skip_nested_validation=True)
    def partial_fit(
        self,
        X: MatrixLike,
        y: object = None,
        sample_weight: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Learn from a chunk of a stream: one online update per `batch_size` documents.

        The first call fixes the vocabulary of matrices. Columns of data frames go by
        their names: new ones extend the topics, absent ones are zeros. A failed call
        leaves the estimator as it was.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Counts of the chunk; rows are documents.
        y : None
            Ignored, but handed on to callbacks.
        sample_weight : array-like of shape (n_samples,), default=None
            Whole numbers: a row of weight w counts as w copies of it, and one of weight
            0 is left out. None is 1 for all. Fractions raise ValueError: a row is in a
            minibatch, or held out, as a whole.
        groups : array-like, (n_samples,) or (n_samples, n_factors), default=None
            Labels of the documents as in `fit`, by the same factors in all calls; new
            labels are new groups. A chunk without labels leaves groups as they are.

        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        ValueError
            If `X` has negative, infinite or missing values, no rows or no columns,
            without names another number of columns than before, or none of the names,
            or if `groups` are not as in `fit` or have other factors than before.
        """
        further = self._further(X, sample_weight, groups)
        return self._partial_fit(X, y, further, sample_weight=sample_weight)

    def _further(self, X, sample_weight, groups, *, in_fit=False):
        """Return what learns groups of documents after a call, or None."""
        n_kinds, factors = 0, None
        if isinstance(groups, Integral):
            self._check_has_groups()
            n_kinds = int(groups)
            self._check_kinds(n_kinds, in_fit=in_fit)
        else:
            factors = self._check_groups(X, groups, in_fit=in_fit)
        if factors is None and n_kinds == 0:
            return None

        def further() -> None:
            posterior = self._posterior
            with Executor(self.n_jobs) as executor:
                documents, rows = self._labelled(X, sample_weight, executor)
                if factors is None:
                    given = n_kinds, posterior, documents, executor
                    posterior.groups = hdp_groups.learn_kinds(*given)
                    return
                own, decay = factors.taken(rows), self.learning_decay
                more = posterior, own, documents, decay, executor
                posterior.groups = hdp_groups.learn_groups(posterior.groups, *more)

        return further

    def _labelled(
        self, X: Any, sample_weight: ArrayLike | None, executor: Executor
    ) -> tuple[hdp_groups.LabelledDocuments, Ints]:
        """Return the documents that groups are learned from, and their rows."""
        counts, _ = self._check_counts(X, "fit")
        rows = np.arange(counts.shape[0])
        if sample_weight is not None:
            rows = rows[valid.check_copies(sample_weight, counts)]
        rows = rows[np.diff(counts.indptr)[rows] > 0]
        return hdp_groups.LabelledDocuments.of(
            self._posterior, counts[rows], executor
        ), rows

    def _check_kinds(self, n_kinds: int, *, in_fit: bool) -> None:
        """Check a number of latent kinds of documents."""
        if not in_fit:
            raise ValueError(
                "groups of partial_fit must be labels: fit alone infers kinds."
            )
        if n_kinds < 2:
            raise ValueError(
                f"groups must be labels, or 2 kinds or more, got {n_kinds}."
            )

    def _check_has_groups(self) -> None:
        """Check that the family of posteriors is one that has groups."""
        if self.variational_family != "collapsed":
            raise ValueError(
                'groups needs variational_family="collapsed", got '
                f"{self.variational_family!r}. topic_shares(..., by=labels) compares "
                "groups under any fit."
            )

    def _check_groups(self, X, groups, *, in_fit=False) -> Factors | None:
        """Check labels of documents; in a stream, that their factors are the same."""
        if groups is None:
            return None
        self._check_has_groups()
        factors, posterior = labels_of(X, groups), vars(self).get("_posterior")
        if posterior is not None and posterior.groups is not None and not in_fit:
            factors.columns_of(posterior.groups.names)
        return factors

    @property
    def _plan(self) -> Plan:
        """What the parameters ask of a fit."""
        is_collapsed = self.variational_family == "collapsed"
        moves = DEFAULT_MOVES if self.split_merge else None
        if isinstance(self.split_merge, SplitMerge):
            moves = self.split_merge
        is_printed = moves is not None and moves.algorithm == "paper"
        held_out = None if is_printed else moves
        final_passes = FINAL_PASSES if is_collapsed else FINAL_PASSES_MEAN_FIELD
        learns_burstiness = is_collapsed and self.burstiness == "auto"
        return Plan(
            is_collapsed,
            moves,
            held_out,
            is_printed,
            0 if is_collapsed else self.warm_up,
            final_passes,
            learns_burstiness,
            {
                "folds_words": is_collapsed and self.learn_priors == "auto",
                "prior_limit": _known_topics.base_prior(self.topic_word_prior),
                "learns_burstiness": learns_burstiness,
                "min_gain": self.min_gain,
            },
        )

    def _make_model(self) -> hdp.HDPModel:
        plan = self._plan
        is_online = self.learning_method == "online"
        if plan.is_printed and (plan.is_collapsed or not is_online):
            raise ValueError(
                'SplitMerge(algorithm="paper") needs variational_family="mean_field" '
                'and learning_method="online": the bound of minibatches judges. Got '
                f"{self.variational_family!r} and {self.learning_method!r}."
            )
        model = hdp.CollapsedHDP if plan.is_collapsed else hdp.DirectHDP
        return model(**self._learned())

    def _local_step(self, executor):
        step: Any = CollapsedStep if self._plan.is_collapsed else DocumentStep
        return DocumentLocalStep(self._local_stop(), executor, step)

    def _infer_counts(self, posterior, counts, executor):
        """Infer expected counts as `score` does; mean-field fits by their own step."""
        if not self._plan.is_collapsed:
            return super()._infer_counts(posterior, counts, executor)
        return fold_in_posterior(posterior, counts, executor).doc_topic

    def _doc_topics(
        self, counts: sp.csr_array, factors: Factors | None = None
    ) -> tuple[Any, np.ndarray, np.ndarray]:
        result = self._seat_in_groups(counts, factors)
        if result is None:
            return super()._doc_topics(counts)
        seated, priors = result
        return seated.doc_topic, priors[:, :-1], self._posterior.rows

    def _seat_in_groups(
        self, counts: sp.csr_array, factors: Factors | None
    ) -> tuple[Seated, Array] | None:
        """Infer topics of documents in groups, and their priors (n_docs, K + 1).

        None if there are no groups that predict better than the corpus.
        """
        posterior = self._posterior
        groups = posterior.groups
        if groups is None or not groups.are_kept:
            return None
        with Executor(self.n_jobs) as executor:
            documents = Documents.of(posterior, counts, executor)
            priors = hdp_groups.doc_priors(
                groups, posterior, factors, documents, executor
            )
            return documents.infer(executor, priors), priors

    def _expected_uses(self, counts):
        in_groups, posterior = self._seat_in_groups(counts, None), self._posterior
        has_tables = posterior.state.burstiness is not None
        if not self._plan.is_collapsed or (in_groups is None and not has_tables):
            return super()._expected_uses(counts)
        if in_groups is None:
            with Executor(self.n_jobs) as executor:
                seated = fold_in_posterior(posterior, counts, executor)
        else:
            seated, _ = in_groups
        uses = seated.tables if has_tables else counts.data
        return seated.doc_topic[:, posterior.rows], uses

    def _start(self, model, counts, seed_entropy, n_docs):
        """Return the start from documents that are not held out."""
        corpus = self._corpus(counts, seed_entropy)
        seen = SeenWords.of(corpus.word_counts())
        train = corpus
        if self._plan.has_time_for_trials(self.max_iter):
            held_out = self._hold_out(corpus, seed_entropy)
            train = corpus if held_out is None else held_out.train
        given = train, seen, model, seed_entropy, n_docs
        if self._is_sampled(corpus) and not has_few_tokens(corpus.X):
            topics = self._sampled(N_SWEEPS, train, seed_entropy)
            return self._start_from(*given, topics.heaviest(self.max_components))
        return self._start_from(*given)

    def _is_sampled(self, corpus) -> bool:
        """Whether topics of a fit start from a sample of their posterior.

        Of short documents, if trials may add topics: a topic that starts from one of
        them has a few words, which no other document of the topic may have.
        """
        plan, is_default = self._plan, self.init == "docs"
        if not (is_default and plan.is_collapsed and plan.may_grow(self.max_iter)):
            return False
        has_known = not isinstance(self.topic_word_prior, Real)
        return not has_known and has_short_documents(corpus.X)

    def _sampled(self, n_sweeps, corpus, seed_entropy) -> _known_topics.StartTopics:
        """Return topics after sweeps of the Gibbs sampler, fractions rounded up.

        Of the words that documents have; others have no probability.
        """
        # Another model, for short documents alone.
        from skbnp.estimators._gibbs_hdp import GibbsHDP

        seed = int(stream(seed_entropy, Purpose.START, 1).integers(2**31))
        sampler = GibbsHDP(
            doc_concentration=self.doc_concentration,
            corpus_concentration=self.corpus_concentration,
            topic_word_prior=self.topic_word_prior,
            burstiness=self.burstiness,
            corpus_concentration_prior=self.corpus_concentration_prior,
            doc_concentration_prior=self.doc_concentration_prior,
            max_iter=n_sweeps,
            random_state=seed,
        )
        words, n_words = np.flatnonzero(corpus.word_counts()), corpus.X.shape[1]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # those of documents have been given
            sampler.fit(corpus.X[:, words].ceil())
        given = _known_topics.given_topics(sampler, len(words))
        n, m = given.distr.shape
        columns, indptr = np.tile(words, n), np.arange(n + 1) * m
        distr = sp.csr_array((given.distr.ravel(), columns, indptr), (n, n_words))
        return given._replace(distr=distr)

    def _start_stream(self, model, counts, seed_entropy, n_docs):
        """Return the start from documents of a stream that are not held out."""
        seen = SeenWords.of(Corpus(counts).word_counts())
        if self._plan.stream_moves is not None:
            reservoir = records.Reservoir.empty(counts.shape[1], n_seen=0)
            learned = reservoir.select_learned(counts, seed_entropy)
            counts = learned if learned.shape[0] > 0 else counts
        corpus = self._corpus(counts, seed_entropy)
        return self._start_from(corpus, seen, model, seed_entropy, n_docs)

    def _start_topics(self, corpus, words, n_components, rng):
        """Start topics: mixtures of a document and the noisy corpus, (n_words, K).

        The collapsed family needs no noise in words that neither has.
        """
        whole = corpus.word_counts()
        if not (self._plan.is_collapsed and self.init == "docs" and whole.sum() > 0.0):
            return super()._start_topics(corpus, words, n_components, rng)
        drawn = _variational.drawn_documents(corpus, words, n_components, rng)
        return births.blur(drawn, DOC_SHARE, whole[words], rng)

    def _behind_known(self, topics, whole, rng):
        """Return start topics beside known ones; collapsed ones are mixed already."""
        if self._plan.is_collapsed:
            return topics
        return super()._behind_known(topics, whole, rng)

    def _mix_with_corpus(self, documents, whole, rng):
        """Mix the words of documents with the corpus."""
        if not self._plan.is_collapsed or whole.sum() <= 0.0:
            return super()._mix_with_corpus(documents, whole, rng)
        return births.blur(documents, DOC_SHARE, whole, rng)

    def _check_size(self, where: str) -> None:
        if self._posterior.reservoir is None:  # or the first call chose a number
            super()._check_size(where)

    def _resumed(self, model, *, in_fit):
        if type(model) is not type(self._posterior.model):
            raise ValueError(
                f"variational_family={self.variational_family!r}, but the fit to go on "
                "from began with the other one."
            )
        posterior: Any = super()._resumed(model, in_fit=in_fit)
        state = posterior.state
        burstiness = state.burstiness if self._plan.learns_burstiness else None
        by_tables = burstiness is not None and (state.by_tables or not in_fit)
        posterior.state = replace(state, burstiness=burstiness, by_tables=by_tables)
        if posterior.max_components < self._posterior.max_components:
            posterior.restart = None  # of more topics than may be
        if in_fit:
            posterior.groups = None
            posterior.reservoir = None  # a fit learns what was held out
            posterior.outliers = posterior.restart = None
        return posterior

    def _widened(self, posterior, rows, vocabulary):
        """Return the posterior with new columns, records of a stream included."""
        posterior = super()._widened(posterior, rows, vocabulary)
        if posterior.reservoir is not None:
            reservoir = posterior.reservoir.widened(len(vocabulary.names))
            outliers = posterior.outliers
            if outliers is not None:
                outliers = outliers.widened(len(vocabulary.names))
            posterior = replace(posterior, reservoir=reservoir, outliers=outliers)
            if len(posterior.global_stats.topic_words.known):
                posterior.restart = None  # of known topics without the new terms
        return posterior

    def _publish_edits(self):
        """Update the fitted attributes after an edit; a restart ends."""
        posterior = self._posterior
        posterior.restart = posterior.equivalent = posterior.held_out_gain = None
        posterior.gains = ()
        if posterior.reservoir is not None:
            posterior.reservoir = posterior.reservoir.keep_number()
        if posterior.outliers is not None:  # topics stay as they were edited
            posterior.outliers = replace(posterior.outliers, provisional=())
        super()._publish_edits()

    _saved_parts = {
        "model": (hdp.DirectHDP, hdp.CollapsedHDP),
        "state": hdp.HDPState,
        "global_stats": (hdp.HDPStats, hdp.CollapsedStats),
    }

    def _least_samples(self, posterior, counts) -> float:
        """Number of documents whose tokens equal those of the topics' prior.

        With fewer, most topics would have hardly more than their prior, and end.
        """
        if not self._plan.is_collapsed or counts.shape[0] == 0:
            return 0.0
        n_entries = posterior.state.n_components * counts.shape[1]
        prior = n_entries * posterior.state.topic_word_prior
        n_tokens = counts.sum() / counts.shape[0]  # of a document
        return prior / max(n_tokens, 1e-300)

    def _why_not_converged(self) -> str:
        if self._plan.is_collapsed:
            return "leaves no two passes to compare."
        return super()._why_not_converged()

    @property
    def n_components_range_(self) -> tuple[int, int] | None:
        """Numbers of topics within one standard error of the best, less `min_gain`."""
        equivalent, n_components = self._fitted_posterior.equivalent, self.n_components_
        if equivalent is None:
            return None
        return min(*equivalent, n_components), max(*equivalent, n_components)

    @property
    def n_components_gains_(self) -> dict[int, float]:
        """Held-out gain over one topic of the numbers that trials compared."""
        return dict(sorted(self._fitted_posterior.gains))

    @property
    def background_weight_(self) -> float:
        """Weight of the mean topic in the topic prior by which `score` predicts."""
        return self._fitted_posterior.state.background_weight

    @property
    def emerged_component_ids_(self) -> Ints:
        """Ids of topics that began in a stream with documents predicted badly."""
        outliers = self._fitted_posterior.outliers
        born = () if outliers is None else outliers.born
        return np.array([n for n in born if n in self._posterior.ids], dtype=np.intp)

    @property
    def _kept_documents(self) -> tuple[sp.csr_array, Ints] | None:
        """Documents that a stream keeps and the call of each, or None."""
        reservoir = self._fitted_posterior.reservoir
        if reservoir is None or len(reservoir.keys) == 0:
            return None
        return reservoir.counts, reservoir.calls.astype(np.intp)

    def _changes(self, since: int | None) -> list[Change]:
        """Topics of a stream that are new since a call, and those that have faded.

        None: since half of the calls of which documents are kept.
        """
        assert self._kept_documents is not None
        calls = np.unique(self._kept_documents[1])
        if since is None:
            since = int(calls[(len(calls) - 1) // 2])
        elif not calls[0] <= since < self.n_iter_:
            raise ValueError(
                f"since must be a call from {calls[0]}, the first with documents kept, "
                f"to {self.n_iter_ - 1}, got {since}."
            )
        with Executor(self.n_jobs) as executor:
            new = new_topics(self._posterior, since, executor)
            return new + faded_topics(self._posterior, since, executor)

    @property
    def _n_enough_docs(self) -> int:
        return 0 if self._plan.moves is None else ENOUGH_DOCS

    def _has_trials_left(self, posterior) -> bool:
        return self._plan.held_out_moves is not None and not posterior.trials_ended

    def _warn_if_not_converged(self, monitor) -> None:
        """Warn of trials cut short, of uncertain numbers, or of no convergence.

        Of a given number of topics, warn if documents do not fill these.
        """
        plan, has_ended = self._plan, self._posterior.trials_ended
        if plan.moves is None:
            words = self._posterior.global_stats.topic_words
            is_empty = (words.tokens < 1.0) & ~words.is_known
            _cautions.warn_if_empty_topics(int(is_empty.sum()), self.n_components_)
        if plan.has_time_for_trials(self.max_iter) and has_ended:
            n_topics, n_docs = self.n_components_, self._posterior.n_seen
            _cautions.warn_if_many_topics(n_topics, n_docs)
            if self._posterior.is_cross_fitted:
                numbers = self.n_components_range_
                _cautions.warn_if_unsure(n_topics, numbers, n_docs)
            elif n_topics == 1 < self._posterior.max_components:
                _cautions.warn_if_one_topic(n_docs)
        moves, n_left = plan.held_out_moves, self.max_iter - self.n_iter_
        if self.tol > 0 and moves is not None and not has_ended:
            is_short = n_left < moves.trial_passes + plan.final_passes
            if is_short or not plan.has_time_for_trials(self.max_iter):
                warn_caller(
                    f"max_iter={self.max_iter} leaves no time for further trials: the "
                    "number of topics may not be final. Increase max_iter.",
                    ConvergenceWarning,
                )
        else:
            super()._warn_if_not_converged(monitor)

    @property
    def _n_stream_docs(self) -> float | None:
        """None where held-out documents choose the topic prior, for those so far."""
        return self.total_samples if self._plan.stream_moves is None else None

    def _stream_warm_up(self, posterior) -> float:
        return 0.0 if self._plan.is_collapsed else super()._stream_warm_up(posterior)

    def _n_started(self) -> int:
        if not isinstance(self.init, str):
            return _known_topics.n_given(self.init)
        return min(self.n_components, self.max_components or self.n_components)

    def _start_state(self, n_docs: float, shares) -> hdp.HDPState:
        """Return the state of equal topic weights, or of those of a given model."""
        if shares is None:
            n_all = self._n_started() + 1
            weights = np.full(n_all, 1.0 / n_all)
        else:
            weights = np.append(shares, 1.0 - shares.sum())
            weights = np.maximum(weights, hdp.SMALLEST_WEIGHT)
            weights /= weights.sum()
        return hdp.HDPState(
            weights=weights,
            doc_concentration=float(self.doc_concentration),
            corpus_concentration=float(self.corpus_concentration),
            topic_word_prior=_known_topics.base_prior(self.topic_word_prior),
        )

    def _component_limit(self) -> float:
        n_started = self._n_started()
        if self.max_components is None:
            return max(MOST_TOPICS, n_started)
        if self.max_components < n_started:
            raise ValueError(
                f"max_components={self.max_components} must be at least the "
                f"{n_started} topics of init: increase it, or drop some of them."
            )
        return self.max_components

    def _around(self, posterior, counts, executor):
        corpus = self._corpus(counts, posterior.seed_entropy)
        return corpus, self._local_step(executor)

    def _make_learner(self, posterior, around, goes_on, n_passes=None):
        """Return the learner of `fit`, with trials if these are due.

        `n_passes` are left, by default `max_iter`.
        """
        corpus, local_step, *_ = around
        plan, held_out = self._plan, None
        n_passes = self.max_iter if n_passes is None else n_passes
        if plan.held_out_moves is not None and not posterior.trials_ended:
            held_out = self._hold_out(corpus, posterior.seed_entropy)
            posterior.trials_ended = held_out is None  # there is nothing to judge by
        if held_out is not None and plan.has_time_for_trials(n_passes):
            given = corpus, local_step, n_passes, goes_on
            is_fresh = not goes_on and isinstance(self.init, str)
            splits = self._splits(corpus, posterior) if is_fresh else []
            if splits:
                trials = self._cross_fitted(posterior, splits, *given)
                if self._is_sampled(corpus):
                    trials.sample = partial(self._sampled, N_SWEEPS // 4)
                passes = trials.passes()
            else:
                passes = self._held_out_trials(*given, posterior, held_out).passes()
            return SearchLearner(posterior, passes)
        warm_up = 0 if goes_on else plan.warm_up
        documents = self._documents(corpus, goes_on)
        learner = self._learner(posterior, corpus, local_step, warm_up, documents)
        if plan.learns_burstiness and posterior.state.burstiness is None:
            learner.moves = births.LearnBurstiness(learner.moves)
        return learner

    def _restored(self, rows, executor, account, before):
        """Return the learner of a file; trials begin again, with the topics so far.

        But for few documents, which are split again.
        """
        check_type("account", account, FitAccount)
        if account["has_ended"] or account["learner"] is not None:
            return super()._restored(rows, executor, account, before)
        posterior = before._posterior
        around = self._around(posterior, rows, executor)
        n_passes = self.max_iter - before.n_iter_
        has_time = self._plan.has_time_for_trials(n_passes)
        has_split = posterior.is_cross_fitted and posterior.equivalent is None
        goes_on = account["goes_on"] or not (has_split and has_time)
        return self._make_learner(posterior, around, goes_on, n_passes), around

    def _cross_fitted(
        self, posterior, splits, corpus, local_step, *given
    ) -> CrossFittedTrials:
        """Return trials of which each document judges some."""
        moves = self._plan.held_out_moves
        assert moves is not None
        return CrossFittedTrials(
            posterior,
            splits,
            partial(self._held_out_trials, corpus, local_step, *given),
            moves,
            int(posterior.global_stats.topic_words.is_known.sum()),
            self.min_gain,
            compares_fixed=has_few_tokens(corpus.X),
        )

    def _held_out_trials(
        self, corpus, local_step, n_passes, goes_on, posterior, held_out
    ) -> HeldOutTrials:
        """Return the trials of a fit."""
        plan, moves = self._plan, self._plan.held_out_moves
        assert moves is not None
        return HeldOutTrials(
            self._trial_learner(posterior, held_out, local_step, goes_on),
            held_out,
            moves,
            n_passes,
            partial(self._final_learner, corpus, local_step),
            n_final_passes=plan.final_passes,
            **plan.of_trials,
        )

    def _hold_out(self, corpus, seed_entropy):
        """Hold out the documents that judge trials; None if there are too few.

        They are the same in a fit that continues: after an interrupt during trials
        nothing has been learned from them. Of short documents they are the same
        whatever the seed, as splits of few documents are.
        """
        if self._is_sampled(corpus):
            seed_entropy = OF_ALL_FITS
        return hold_out(corpus.X, stream(seed_entropy, Purpose.SPLIT_TOKENS, 0))

    def _splits(self, corpus, posterior):
        """Return the held-out documents of each split if documents are few, or []."""
        are_few = self.min_gain > 0.0 and has_few_judges(corpus.X)
        are_few &= not self._is_sampled(corpus)
        if not (are_few or has_few_tokens(corpus.X)):
            return []
        return hold_out_each(corpus.X, stream(OF_ALL_FITS, Purpose.SPLIT_TOKENS, 1))

    def _final_learner(self, corpus, local_step, held_out, posterior, last):
        """Return the learner of all documents after trials; `last` learned before."""
        plan, documents = self._plan, last.cache.documents
        if hasattr(documents, "spread"):
            documents = documents.spread(held_out.rows, corpus.n_docs)
        warm_up = min(plan.warm_up, plan.final_passes - FINAL_EXACT_PASSES)
        n_forgetting = plan.final_passes // 2 if plan.is_collapsed else np.inf
        return self._learner(
            posterior, corpus, local_step, warm_up, documents, n_forgetting
        )

    def _documents(self, corpus, goes_on) -> engine.DocumentCache:
        """Return the cache of documents' local parameters in running averages."""
        # The document step takes out what totals hold of them.
        if self._plan.is_collapsed:
            return engine.DocumentWeights(corpus.n_docs, float(goes_on))
        return engine.NOTHING

    def _round_moves(self) -> Moves:
        moves = self._plan.moves
        if moves is None:
            return NO_MOVES
        return PrintedMoves(moves) if self._plan.is_printed else births.EndUnused(moves)

    def _learner(
        self, posterior, corpus, local_step, warm_up, documents, n_forgetting=np.inf
    ):
        """Return the learner of a corpus, with its schedule and cache."""
        return Learner(
            posterior,
            corpus,
            self._fit_schedule(posterior, corpus, n_forgetting),
            local_step,
            self._cache(warm_up, documents),
            self._round_moves(),
            warm_up=warm_up * corpus.n_docs,
        )

    def _cache(self, warm_up, documents) -> Any:
        """Return the statistics cache of a fit."""
        if self.learning_method == "online":
            return engine.RunningAverage(documents)
        if self._plan.is_collapsed:
            return records.PartCache(document_weights=documents)
        return records.PartCache(max(warm_up, 1))

    def _trial_learner(self, posterior, held_out, local_step, goes_on) -> Learner:
        """Return the learner of the documents that are not held out."""
        return Learner(
            posterior,
            held_out.train,
            self._schedule(posterior, held_out.train, first_step=0),
            local_step,
            engine.RunningAverage(self._documents(held_out.train, goes_on)),
            self._round_moves(),
            warm_up=self._plan.warm_up * held_out.train.n_docs,
        )

    def _fit_schedule(self, posterior, corpus, n_forgetting=np.inf):
        schedule = super()._fit_schedule(posterior, corpus, n_forgetting)
        is_online = self.learning_method == "online"
        return schedule.remembering(REMEMBERED) if is_online else schedule

    def _stream_schedule(self, posterior, rows, **changes):
        """Return minibatches of a chunk; small ones have a share of a step.

        Not before a restart or a fit: topics must leave their start.
        """
        has_learned = posterior.n_steps > 0 and posterior.n_seen == 0
        if posterior.step_origin != 0 or has_learned:
            changes |= {"full_size": FULL_SIZE}
        return super()._stream_schedule(posterior, rows, **changes)

    def _learn_chunk(self, posterior, counts, executor, monitor) -> None:
        """Learn a chunk of a stream, with trials of other topics when these are due."""
        posterior.trials_ended = True  # a stream keeps its topics in later fits
        plan, moves = self._plan, self._plan.stream_moves
        if moves is None:
            n_before = posterior.n_seen
            super()._learn_chunk(posterior, counts, executor, monitor)
            if plan.learns_burstiness and records.has_doubled(
                n_before, posterior.n_seen
            ):
                births.update_burstiness(Corpus(counts), posterior, executor)
            return
        if posterior.reservoir is None:
            n_seen = posterior.n_seen
            posterior.reservoir = records.Reservoir.empty(counts.shape[1], n_seen)
        trials = StreamTrials(
            posterior,
            executor,
            monitor,
            moves,
            self.min_gain,
            super()._learn_chunk,
            self._learner_of_kept,
            self._n_samples,
            self._cross_fitted_stream,
            is_collapsed=plan.is_collapsed,
            folds_words=plan.of_trials["folds_words"],
            learns_burstiness=plan.learns_burstiness,
        )
        if posterior.n_steps == 0:
            _cautions.warn_if_total_is_ignored(self.total_samples)
        is_first = posterior.n_steps == 0 and isinstance(self.init, str)
        if is_first and counts.shape[0] > 0:
            trials.choose_first_number(counts)
            n_topics, n_docs = posterior.state.n_components, counts.shape[0]
            _cautions.warn_if_first_documents_are_few(
                n_topics, n_docs, records.ENOUGH_CHOOSING
            )
        call = 1 + (self.n_iter_ if posterior.n_steps > 0 else 0)
        trials.learn(counts, self._batch_size(counts), call, is_first=is_first)

    def _learner_of_kept(self, posterior, kept, executor, are_counted):
        """Return the learner of documents that a stream keeps.

        `are_counted`: whether its totals hold each once.
        """
        documents = self._documents(Corpus(kept), goes_on=are_counted)
        n_samples = self._n_samples(posterior, kept)
        given = posterior, kept, executor, documents
        return self._stream_learner(*given, total_samples=n_samples)

    def _cross_fitted_stream(self, posterior, splits, some, executor):
        """Return trials by some documents of a stream."""
        given = Corpus(some), self._local_step(executor), self.max_iter, False
        return self._cross_fitted(posterior, splits, *given)

    def _n_samples(self, posterior, counts) -> float:
        """Number of documents that the totals of a stream stand for."""
        return max(posterior.n_seen, self._least_samples(posterior, counts))

    def _fitted_attributes(self, posterior, history, n_iter, converged=False):
        result = super()._fitted_attributes(posterior, history, n_iter, converged)
        burstiness = posterior.state.burstiness or NO_BURSTINESS
        state = posterior.state.for_prediction
        result["prediction_concentration_"] = state.doc_concentration
        result["word_discount_"] = burstiness.discount
        result["word_concentration_"] = burstiness.concentration
        return result

    @property
    def _prediction_state(self):
        return self._posterior.state.for_prediction

    def _predictor(self, factors: Factors | None = None):
        """Return the predictor of documents, with their labels if there are any."""
        predictor = super()._predictor()
        posterior = self._posterior
        groups = posterior.groups
        if groups is None or not groups.are_kept:
            return predictor
        own = partial(hdp_groups.doc_priors, groups, posterior, factors)
        return replace(predictor, doc_priors=lambda _, *given: own(*given))

    def _known_groups(self) -> tuple[Sequence[str], Sequence[Sequence[Label]]] | None:
        known = self._posterior.groups
        if known is None:
            return None
        if known.are_latent:
            raise ValueError(
                "groups must be None: fit had no labels, and kinds of documents are "
                "inferred."
            )
        return known.names, known.labels

    @property
    def _learned_groups(self) -> hdp_groups.Groups:
        groups = self._fitted_posterior.groups
        if groups is None:
            raise AttributeError("This HDP has no groups: fit had no labels of these.")
        return groups.following(self._posterior)

    @property
    def groups_(self) -> NDArray | dict[str, NDArray]:
        """Labels of groups, (n_groups,); of several factors a dict by name."""
        groups = self._learned_groups
        return groups.by_factor([np.array(labels) for labels in groups.labels])

    @property
    def group_weights_(self) -> Array | dict[str, Array]:
        """Topic weights of groups, (n_groups, n_components_), as `groups_`."""
        groups, posterior = self._learned_groups, self._posterior
        corpus = posterior.state.weights
        weights = np.tile(corpus, (len(groups.n_docs), 1))
        if groups.are_kept:
            weights = groups.weights(corpus)
        parts = np.split(weights[:, posterior.rows], groups.limits[1:-1])
        return groups.by_factor(parts)

    @property
    def group_concentration_(self) -> float | dict[str, float]:
        """Concentration of the weights of groups, as `groups_`."""
        groups = self._learned_groups
        return groups.by_factor(groups.concentrations.tolist())

    @property
    def factor_weights_(self) -> Array:
        """Shares of the corpus and of factors in the prior, (1 + n_factors,)."""
        groups = self._learned_groups
        if groups.are_kept:
            return groups.shares
        return np.append(1.0, np.zeros(len(groups.names)))

    @property
    def log_predictive_(self) -> float:
        """Log probability of training tokens given all others, nats per token."""
        return self._last("log_predictive")

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

            - "words": E[log p(w | z, phi)] - KL(q(phi) || p(phi));
            - "assignments": E[log p(z | pi)] - KL(q(pi) || p(pi | alpha beta));
            - "entropy": of q(z);
            - "weights": gamma log beta_{K+1}, the prior of the topic weights;
            - "doc_concentration": its log prior up to a constant, where it is learned.
        """
        return self._elbo_terms(X)
