"""The direct-assignment HDP topic model."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning

from skbnp.components.seen_words import SeenWords
from skbnp.estimators._cautions import warn_if_many_topics
from skbnp.estimators._given_topics import n_given
from skbnp.estimators._known_topics import TopicPriorLike, base_prior
from skbnp.estimators._saved import (
    LARGE,
    check_array,
    check_kinds,
    check_number,
    check_sparse,
)
from skbnp.estimators._variational import VariationalTopicModel, drawn_documents
from skbnp.inference.engine import Learner
from skbnp.inference.executor import Executor
from skbnp.inference.memory import NOTHING, DocumentCache, RunningAverage
from skbnp.inference.protocols import NO_MOVES, Corpus, Moves
from skbnp.inference.schedules import BatchSchedule, OnlineSchedule, Schedule
from skbnp.models.hdp.bound_trials import BoundTrials
from skbnp.models.hdp.burstiness import (
    MOST_CONCENTRATION,
    MOST_DISCOUNT,
    NO_BURSTINESS,
    Burstiness,
    evenly,
)
from skbnp.models.hdp.collapsed_local import CollapsedStep
from skbnp.models.hdp.collapsed_model import CollapsedHDP, CollapsedStats
from skbnp.models.hdp.fold_in import first_uses, fold_in_posterior, score_documents
from skbnp.models.hdp.held_out import hold_out
from skbnp.models.hdp.held_out_trials import HeldOutTrials, try_on_sample
from skbnp.models.hdp.local import DocumentStep
from skbnp.models.hdp.memory import CollapsedCache, DocumentWeights, MeanFieldCache
from skbnp.models.hdp.model import (
    SMALLEST_WEIGHT,
    DirectHDP,
    HDPModel,
    HDPState,
    HDPStats,
)
from skbnp.models.hdp.moves.held_out import blur
from skbnp.models.hdp.moves.memory import MoveRecords
from skbnp.models.hdp.moves.printed import PrintedMoves
from skbnp.models.hdp.moves.repeats import LearnBurstiness, suit_burstiness_to
from skbnp.models.hdp.moves.settings import SplitMerge
from skbnp.models.hdp.moves.structure import EndUnused, ExactMoves, MinibatchMoves
from skbnp.models.hdp.posterior import HDPPosterior
from skbnp.models.hdp.prediction_concentration import HIGHEST
from skbnp.models.hdp.reservoir import LAST_KEY, SCORED, Reservoir, has_doubled
from skbnp.rows.survey import ENOUGH_DOCS
from skbnp.utils.random import Purpose, stream
from skbnp.utils.typing import MatrixLike
from skbnp.utils.validation import Interval, Options, StrOptions
from skbnp.utils.warnings import warn_caller

__all__ = ["HDP", "SplitMerge"]

#: Share of the document in a topic that starts from one; the rest is the corpus.
DOC_SHARE = 0.2
#: Topics that births reach at the most, unless asked for.
MOST_TOPICS = 1000
#: Passes over everything after trials. In the collapsed family the second half is
#: averaged; in the mean-field family the first have mean weights, and some are exact.
FINAL_PASSES, FINAL_PASSES_MEAN_FIELD, FINAL_EXACT_PASSES = 6, 8, 3
#: Share of a pass that the last minibatches of forgetting stand for, at the least:
#: where they are many, steps as from a start would leave hardly any of the corpus.
REMEMBERED = 1.0 / 3.0
#: Documents of a call that are learned from together, over those that a stream keeps.
PART_SHARE = 0.125
#: "auto" minibatches: documents, and tokens, at the least. Fewer tokens say too little.
LEAST_DOCS, LEAST_TOKENS = 128, 4000


class HDP(VariationalTopicModel):
    """Hierarchical Dirichlet process topic model, by variational inference.

    A topic model with infinitely many topics of which `n_components` are represented.
    Each document mixes topics, all documents share them, and their corpus-level weights
    are learned, so that superfluous topics fade. The generative story, with the symbols
    of [1]_:

    - corpus weights beta ~ GEM(gamma); topics phi_k ~ Dirichlet(eta);
    - each document: proportions pi_j ~ DP(alpha, beta);
    - each token: topic z ~ pi_j, word w ~ phi_z.

    There are two families of posteriors. "collapsed" integrates topics and proportions
    out and keeps q(z) alone: on text it predicts unseen words better. The other,
    "mean_field", is that of [1]_: `fit` maximises the evidence lower bound of its
    section 2.2 over q(phi) q(pi) q(z) and a point estimate of beta. Either finds the
    number of topics that predicts best; by the bound, as in [1]_, on request.

    Parameters
    ----------
    n_components : int, default=300
        Number of represented topics (K) to start from, at least 1. `n_components_` says
        how many `fit` has found, with `split_merge`: about as many from any start, see
        Notes; a stream (`partial_fit`) as many as it has shown so far. All other topics
        together keep the rest of the corpus weights.
    max_components : int or None, default=None
        Bound of the number of topics that moves may reach, at least `n_components`.
        None is 1,000, or `n_components` if that is more.
    variational_family : {"collapsed", "mean_field"}, default="collapsed"
        "collapsed": each token is assigned given the expected assignments of all
        others, see Notes; the better predictor. There is no bound of the evidence to
        follow: `log_predictive_` stands in its place. "mean_field": the algorithm of
        [1]_, with its bound.
    learning_method : {"online", "memoized", "batch"}, default="online"
        "online": one update per minibatch, with decreasing steps; for streams and large
        corpora. "memoized": one update per minibatch, which remembers what it said when
        it was visited before, so that totals are those of the whole corpus; memory is
        about twice that of the data. In the mean-field family the bound is then exact
        and does not fall after trials and the warm-up. "batch": the same with the
        corpus as one minibatch. (Changes of `corpus_concentration_` may lower the
        bound: each value has one of its own.)
    doc_concentration : float, default=1.0
        Concentration of a document's topics (alpha), in [1e-100, 1e10]; larger values
        mix more topics in a document. The value that the first fit starts from; what
        `partial_fit` or a warm start goes on with are the values learned.
    corpus_concentration : float, default=1.0
        Concentration of the corpus weights (gamma), in [1e-100, 1e10]; larger values
        leave more weight to rare and unseen topics. A starting value, likewise.
    topic_word_prior : float, dict, array-like or KnownTopics, default=0.05
        Dirichlet parameter of topics over terms (eta), in [1e-100, 1e10]; smaller
        values make more specific topics. A starting value, likewise. Or topics that are
        known, the first of all: seed words by name, or the prior of each, (n_known,
        n_features); :class:`KnownTopics` sets what they weigh, freezes them and gives
        the parameter of all others.
    burstiness : "auto" or False, default="auto"
        Collapsed family: whether documents repeat words for reasons of their own [5]_,
        so that topics need not explain repeats; `transform` then gives shares of first
        uses. "auto" learns how much, from held-out documents where these judge trials
        (`split_merge`) and by leaving out one token at a time otherwise; nothing where
        repeats are no better predicted so by two standard errors. False, and the
        mean-field family: topics explain all tokens, as they should where shares of
        tokens, or prediction by topics alone (``score(X, repeats=False)``), are what is
        asked for.
    learn_priors : bool, "auto" or "concentrations", default="auto"
        What is learned of the priors: "concentrations" for both concentrations, True
        for these and, after each pass, the topic prior, False for nothing. "auto":
        both concentrations; in the collapsed family also the topic prior, where
        held-out documents judge trials (`split_merge`, Notes), no larger than
        `topic_word_prior` until births end.
    corpus_concentration_prior, doc_concentration_prior : (float, float), default=(1, 1)
        Shape and rate of the Gamma priors under which concentrations are learned,
        both > 0.
    split_merge : bool or SplitMerge, default=True
        Whether the number of topics changes; a `SplitMerge` sets the details. True
        tries other numbers of topics, judged by held-out documents (Notes), and ends
        topics that hold less than a token of the corpus, in a stream after ten
        documents per topic. ``SplitMerge(criterion="bound")``, mean-field family only,
        judges by the bound: online by that of minibatches (Algorithm 2 of [1]_ and
        Notes), otherwise by the exact one.
    batch_size : int or "auto", default="auto"
        Documents of a minibatch at the most; minibatches of a pass are of equal size.
        "auto": 128, or as many as hold 4,000 tokens on average.
    learning_offset : float, default=1.0
        Offset of the step sizes rho_t = (learning_offset + t)^-learning_decay (tau),
        >= 0; larger values give early minibatches less weight.
    learning_decay : float, default=0.5
        Decay of the step sizes (kappa), in [0.5, 1]. Convergence theory asks for more
        than 0.5; the noise of larger steps leads to better topics.
    total_samples : float or None, default=None
        Documents of the stream that `partial_fit` learns from (D), > 0. None means
        those learned from so far, in collapsed learning at least as many as hold the
        tokens of the topics' prior (`n_components` * `n_features` *
        `topic_word_prior`). `fit` uses the number of documents of `X`.
    max_iter : int, default=100
        Passes over the data in `fit`, warm-up and trials included. On text, trials take
        15 to 60. With fewer than 14 (2 `trial_passes` and six; mean-field: 16) there
        are none that held-out documents judge.
    tol : float, default=1e-4
        `fit` ends when the bound, or `log_predictive_`, changes by less than `tol`,
        relatively, between two passes after the warm-up and after trials. A fit that
        has made trials ends at the latest after six passes over everything (mean-field:
        eight), unless the bound is exact. 0 always makes `max_iter` passes.
    max_doc_update_iter : int, default=100
        Iterations for one document at the most; collapsed learning makes no more than
        10.
    mean_change_tol : float, default=1e-3
        The iteration of a document ends when its expected topic counts change by less
        than this per token; in collapsed learning by less than 0.01, whatever is asked
        for below.
    warm_up : int, default=5
        First passes of a fit, and of each trial, in which the mean-field document step
        uses mean topics E[phi] in place of exp(E[log phi]), see Notes; 0 for none.
        After trials there are five at the most. In `partial_fit` the warm-up lasts
        until ``warm_up * total_samples`` documents are learned from, or 10,000 where
        `total_samples` is None. Collapsed learning has none.
    init : {"docs", "random"} or fitted topic model, default="docs"
        Start each topic from a random document with noise, from noise, or from the
        topics and weights of another model of the same columns, any that has
        `components_` of counts. `HDP` then begins with as many topics as that has,
        whatever `n_components`, and tries other numbers as ever; `StickBreakingHDP`
        adds topics from documents up to `max_components`, with a tenth of the corpus
        together. Wrap a model in `sklearn.frozen.FrozenEstimator` where the estimator
        will be cloned, as by `GridSearchCV`.
    sparse_output : bool, default=False
        Whether `transform` returns a csr_array, without the shares of topics of which
        a document has no tokens: these are of the prior alone.
    n_jobs : int or None, default=None
        Threads of the document step, as in scikit-learn. Results do not depend on it.
    random_state : int, RandomState instance or None, default=None
        Start and order of documents. The same int gives the same bits.
    verbose : int, default=0
        Passes between messages; 0 for none. For a progress bar use
        ``set_callbacks(sklearn.callback.ProgressBar())``.
    warm_start : bool, default=False
        Whether `fit` goes on from the present topics. Documents start afresh, so the
        bound may be a little lower after the first pass than it was.

    Attributes
    ----------
    components_ : ndarray of shape (n_components_, n_features)
        Variational Dirichlet parameters of the topics (lambda): expected counts of
        each term plus `topic_word_prior_`. Made anew at each access.
    topic_word_distr_ : ndarray of shape (n_components_, n_features)
        Expected topics; rows sum to one. Made anew at each access.
    topic_weights_ : ndarray of shape (n_components_,)
        Corpus-level weights (beta); what they lack to one belongs to topics not
        represented.
    n_components_ : int
        Number of represented topics.
    component_ids_ : ndarray of shape (n_components_,)
        The number of each topic, which it keeps for life: the one that `summary`,
        figures, `get_feature_names_out` and edits go by. Topic k stands in row k where
        there is such a row, so that no row number is the id of another topic.
    lineage_ : list of named tuples (step, kind, parents, children)
        Where each id came from: the start, then every birth, split, merge and end
        ("prune") of a topic. Ended ids never return.
    n_active_components_ : int
        Topics with at least max(1, 1e-4 of all) expected tokens.
    doc_concentration_, corpus_concentration_ : float
        Values in force after learning.
    topic_word_prior_ : float or ndarray of shape (n_components_, n_features)
        Value in force after learning. Where topics are known, the prior of each.
    prediction_concentration_ : float
        Concentration of documents in `score` and `transform`: that under which
        held-out documents are predicted best, where they judge trials, or
        `doc_concentration_`, if that is larger.
    word_discount_, word_concentration_ : float
        Discount d in [0, 1) and concentration c of the words that a document repeats:
        with N tokens of T first uses so far, its next token is a first use with
        probability (c + d T) / (c + N). 0.0 and inf where documents repeat none.
    elbo_ : float
        Mean-field family only: bound of the training data in nats per token; after
        online learning that of the recent documents, weighted as the step sizes weigh
        them; during the first updates the random start still weighs in it and lowers
        it.
    log_predictive_ : float
        Collapsed family only: log probability of the training tokens, each given the
        expected assignments of all others, in nats per token; of the recent documents,
        likewise. It tells whether a fit has settled. It is no held-out score: the
        others have shaped the topics, so it is higher. Edits do not change it.
    converged_ : bool
        Whether `tol` (or the passes over everything, see there) ended the last `fit`,
        and no trial of another number of topics that held-out documents judge was left.
    history_ : dict of lists
        One entry per update (minibatch or batch pass): `step`, `seconds` (elapsed wall
        time), `n_components`, `n_births`, `n_splits` and `n_merges` accepted so far,
        and `elbo` or `log_predictive` (nats per token; evaluated once per pass of
        `fit`, nan in between and in `partial_fit`).
    n_iter_ : int
        Passes made by the last `fit`; calls of `partial_fit` add one.
    n_features_in_ : int
        Size of the vocabulary.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the terms, if `X` had them.

    See Also
    --------
    sklearn.decomposition.LatentDirichletAllocation : A fixed number of topics of equal
        prior weight.

    Notes
    -----
    **Collapsed family.** With n_jw tokens of word w in document j, expected counts
    N_jk, S_kw and S_k, and a_k = alpha beta_k, the responsibilities of a document are
    iterated, all words at once,

        r_jwk ~ (a_k + c_jk [N_jk - n_jw r_jwk]_+)
                max((eta + S_kw - h_j n_jw r_jwk) / (V eta + S_k), eta / (V eta + S_k)),

    the zero-order step of [2]_ with two changes:

    - The factor of the document is that of [3]_, the geometric mean
      exp(E[log(a_k + n)]) = a_k + c_jk N_jk of a Poisson count n of mean N_jk, its zero
      taken apart. The arithmetic mean (c_jk = 1) lets many topics share a short
      document, and predicts worse there. Topics keep the arithmetic mean: with the
      geometric one they predict worse.
    - h_j says how often the totals S count document j: 1 in batches; online each update
      multiplies it by 1 - rho and a visit adds rho times the documents of the corpus
      over those of the minibatch; 0 in `partial_fit`, whose documents are new. Without
      it the score of later passes falls.

    A document iterates over the topics that have half a token in it (or 2 % of its
    tokens) after three plain steps over all. Topic weights are in proportion to the
    tables of the Chinese restaurant franchise that are expected under the same Poisson
    counts, and concentrations follow from these [4]_. Topics start as mixtures of a
    document (20 %) and the corpus.

    **Burstiness.** With the mixture H_j = sum_k pi_jk phi_k of a document, its tokens
    are those of a restaurant PYP(d, c, H_j) [5]_: n_jw tokens of word w sit at t_jw
    tables (first uses), which topics explain, and

        p(w | j) = ([n_jw - d t_jw]_+ + [c + d T_j] sum_k pi_jk phi_kw) / (c + N_j).

    This predicts the documents that judge trials, and d and c maximise the probability
    of each token given all others. Fewer topics are then kept within one standard error
    of the best. Once their number stands, a copy in which expected tables take the
    place of tokens throughout replaces the model if it predicts no worse; fits without
    trials go over to tables after 15 passes. Streams learn from tokens.

    **Prediction.** `score` folds documents in by the step of [2]_ as it is, with topics
    held fixed: c_jk = 1, and one token is taken out, not all of its word. That is
    mostly nearer to posterior means than mean field, and predicts text better than
    exact ones, see :func:`skbnp.metrics.held_out_log_likelihood`. So does `transform`,
    whose shares are of first uses, not of tokens, where documents repeat words; but in
    the mean-field family it is the document step of [1]_. `elbo` is of that step in
    both families.

    **Mean-field family.** Implemented are Eqs. (3)-(7) of [1]_ and its objective (2) in
    full, all constants included.

    **Departures from the paper**

    - theta_j has K + 1 entries: the last, alpha beta_{K+1}, stands for all topics not
      represented, so that the bound is nested in K.
    - The prior of the point estimate beta enters the bound as gamma log beta_{K+1}. A
      density of beta (the paper does not say in which coordinates) would reward empty
      topics and degenerate for gamma <= 1.
    - beta is updated in closed form, by a tangent bound whose maximum is one root in
      one variable; the paper's L-BFGS reaches the same optimum. The concentrations are
      updated likewise, online by averaging logarithms with the step sizes of Eq. (7).
    - Documents start from theta_jk = alpha beta_k + N_j beta_k / (1 - beta_{K+1}).
      Batch learning starts them from their last visit too and keeps the better result,
      so that the bound does not fall and new topics can enter old documents.
    - A document is iterated in single precision, without the topics that it does not
      use until the end; a last pass in double precision makes responsibilities sum to
      one.
    - Expected counts below 1e-9 tokens in a document are set to zero.
    - The corpus concentration is learned under a proper Gamma prior; its maximum
      likelihood together with a point estimate of beta is at zero.
    - Warm-up: exp(E[log phi]) gives a term that a topic does not hold yet the weight
      exp(psi(eta)), about 1e-9 for eta = 0.05, so that topics of a large vocabulary
      freeze as they started. During the first passes the mean is used instead. Any
      responsibilities give a bound; the warm-up leads to a higher one.
    - Minibatches of a pass have equal sizes: a small last one would stand for as much
      of the corpus as the others.
    - Documents without tokens are left out of learning.

    **The number of topics** is judged by prediction in either family, for no bound
    ranks numbers of topics as prediction does. `fit` holds out a fifth of the documents
    (no more than hold 40,000 tokens, but at least 100 documents, or a quarter of few),
    from which no topic starts, and predicts each fifth of their tokens from the others,
    as `score` does. Tokens held out of documents that are learned from are no such
    judges: topics that no two documents share predict them well.

    - Births: after four passes (`trial_passes`) a candidate with three times as many
      topics (at least ten more; at most one more for each document) learns beside the
      model, as long, or half as long if it is behind then. The old topics start
      afresh, as mixtures with the corpus (80 %) like the new ones (60 % corpus, 40 % a
      document): settled topics take the documents back from newcomers. It replaces
      the model if held-out documents gain more than a quarter of a standard error, and
      .005 nats per token for each doubling; and so on until a fifth of the topics find
      no documents (half of them in the mean-field family), where more are counted the
      more the topic prior fell meanwhile, or as many as `max_components` allows have
      been tried. Topics that are not needed may still leave; growth that ends too early
      ends for good.
    - Collapsed family: then a copy of the model goes on for as many passes, or half as
      many if it is behind then, with steps that decrease further, and replaces it if
      held-out documents gain more than .002 nats per token and a quarter of a standard
      error; and so on, unless words alone predict better or time is left for no more
      than one reduction. Which topics are needed shows late in large corpora of short
      documents.
    - Where words alone, without topics, predict better, all topics are merged, and
      births begin anew.
    - Reductions: from every other held-out document follows what each merge of similar
      topics and each end of a topic would cost with proportions as they are. The
      cheapest, of .001 nats together, are made in a candidate that learns as long, with
      steps as from a start, or with those of a model that has gone on. It is kept if it
      predicts the other held-out documents alike, within .002 nats, or one standard
      error of the best and .01 nats (a quarter of an error without burstiness), else
      followed by half as many changes unless it is twice as far behind; and so on until
      hardly any are left; those that do not gain two standard errors wait beside the
      model for the end. Documents that choose what ends must not judge it: of many
      topics some are cheap because these documents happen to have none of them.
    - In the end everything is learned from, in six passes with steps as from a start
      (mean-field: eight); the first half beside the model, which they replace. In
      collapsed learning the second half is averaged: the step sizes of the start would
      weigh less than a pass, and scores go up and down. Online, steps of more than 27
      minibatches begin so much smaller that the last third of a pass counts then.

    - The topic prior (collapsed family, ``learn_priors="auto"``): after the first four
      passes, twice in each candidate's passes, and once more, or up to five times while
      it falls, before the model goes on, eta moves by a step of Newton's method (a
      factor of 3 at the most) to where held-out documents predict words from others
      best: the vocabulary is dealt out to five folds, and the counts of the words of
      each are predicted from those of all others, with Poisson probabilities of mean
      n_j sum_k E lambda_jk (eta + S_kw) / (V eta + S_k). Proportions lambda_jk have
      expected values (alpha beta_k + N_jk) / (alpha + n_j (1 - Phi_fk)), with N_jk from
      the words seen, by mean field, and Phi_fk the share of topic k that is of fold f;
      they and S stay as they are. No word is predicted from itself: documents repeat
      words, and tokens ask for a smaller eta (.005 in place of .011 for papers of
      NIPS), under which topics say less of words that a document has not shown yet.
      States are compared, by tokens, under the prior that each has then. What documents
      that are learned from say of eta is biased: expected counts of many words in many
      topics are small, but hardly one is zero. Until births end, eta is no larger than
      `topic_word_prior`: few topics ask for a large one, under which many would not
      live.

    Trials of all learning methods are made in minibatches, in the mean-field family
    with mean weights for `warm_up` passes, as those that follow. A warm start makes the
    trials that no fit has completed, with steps as from a start; otherwise, and after
    `partial_fit`, it keeps the topics. Topics that have learned from the documents that
    judge are harder to replace than those of a fresh fit.

    A stream has such trials after 250 documents and whenever it has twice as many as at
    the last ones, or four times as many where none was accepted: over a random sample
    of its different documents, of about 1.5 million tokens
    (`SplitMerge.reservoir_tokens`; 12 bytes for each different word of a document),
    part of the model wherever it is saved. A tenth of the first documents, and fewer
    later, are held out: they are not learned from while they judge, and no topic starts
    from one. Candidates learn twice as long, for the model knows more documents; after
    a trial that was accepted, four passes over the sample follow, and step sizes go on
    from there. A call of `partial_fit` may so take many times as long as others. The
    more documents a stream has beyond its sample, the less a candidate that knows the
    sample alone can gain: in the end the number of topics stays. Trials may undo what
    `merge_components` and `drop_components` have done.

    **Moves judged by the bound** (``SplitMerge(criterion="bound")``), mean-field, after
    the warm-up:

    - Splits (online): Algorithm 2 of [1]_, on a fresh document step under the updated
      topics. Children are fitted to half of the minibatch's documents that use the
      topic and judged by the others; the paper's verdict on the same documents is
      biased towards splitting: on text it costs prediction. On a large vocabulary no
      split of few topics raises the bound: each further term in use costs a child about
      -log(eta).
    - Births (with memory): a candidate posterior with many new topics, started from
      documents that are explained badly, and with some of the present ones learns
      beside the model, with a warm-up of its own, and replaces it if the bound is
      higher.
    - Merges: a minibatch alone does not decide. Online, what documents gain is added up
      over minibatches until it is clear; with memory the gain is that of the corpus,
      exact.
    - Topics end when they are idle in some minibatches in a row (online) or have lost
      all documents (with memory, where trials end the lightest ones too).
    - ``SplitMerge.paper()`` is Algorithm 2 as printed: merges that one minibatch judges
      before its update, and splits that it judges after it.

    The bound prefers fewer topics than prediction does where documents are long.

    References
    ----------
    .. [1] Michael Bryant and Erik B. Sudderth, "Truly Nonparametric Online Variational
       Inference for Hierarchical Dirichlet Processes", Advances in Neural Information
       Processing Systems 25, 2012.
    .. [2] Arthur Asuncion, Max Welling, Padhraic Smyth and Yee Whye Teh, "On Smoothing
       and Inference for Topic Models", Uncertainty in Artificial Intelligence, 2009;
       online: James Foulds, Levi Boyles, Christopher DuBois, Padhraic Smyth and Max
       Welling, "Stochastic Collapsed Variational Bayesian Inference for Latent
       Dirichlet Allocation", KDD 2013.
    .. [3] Yee Whye Teh, Kenichi Kurihara and Max Welling, "Collapsed Variational
       Inference for HDP", Advances in Neural Information Processing Systems 20, 2007.
    .. [4] Issei Sato, Kenichi Kurihara and Hiroshi Nakagawa, "Practical Collapsed
       Variational Bayes Inference for Hierarchical Dirichlet Process", KDD 2012.
    .. [5] Wray Buntine and Swapnil Mishra, "Experiments with Non-parametric Topic
       Models", KDD 2014; with d = 0 Gabriel Doyle and Charles Elkan, "Accounting for
       Burstiness in Topic Models", ICML 2009.

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
    prediction_concentration_: float
    word_discount_: float
    word_concentration_: float

    _posterior_class = HDPPosterior
    _parameter_constraints: dict = {
        **VariationalTopicModel._parameter_constraints,
        "learn_priors": ["boolean", StrOptions({"auto", "concentrations"})],
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "max_components": [Interval(Integral, 1, None, closed="left"), None],
        "variational_family": [StrOptions({"collapsed", "mean_field"})],
        "batch_size": [
            Interval(Integral, 1, None, closed="left"),
            StrOptions({"auto"}),
        ],
        "learning_method": [StrOptions({"batch", "memoized", "online"})],
        "split_merge": ["boolean", SplitMerge],
        "burstiness": [StrOptions({"auto"}), Options(bool, {False})],
    }

    def __init__(
        self,
        n_components=300,
        *,
        max_components=None,
        variational_family="collapsed",
        learning_method="online",
        doc_concentration=1.0,
        corpus_concentration=1.0,
        topic_word_prior: TopicPriorLike = 0.05,
        burstiness: bool | str = "auto",
        learn_priors: bool | str = "auto",
        corpus_concentration_prior: Sequence[float] = (1.0, 1.0),
        doc_concentration_prior: Sequence[float] = (1.0, 1.0),
        split_merge: bool | SplitMerge = True,
        batch_size: int | str = "auto",
        learning_offset=1.0,
        learning_decay=0.5,
        total_samples=None,
        max_iter=100,
        tol=1e-4,
        max_doc_update_iter=100,
        mean_change_tol=1e-3,
        warm_up=5,
        init: str | BaseEstimator = "docs",
        sparse_output=False,
        n_jobs=None,
        random_state=None,
        verbose=0,
        warm_start=False,
    ):
        self.n_components = n_components
        self.max_components = max_components
        self.variational_family = variational_family
        self.learning_method = learning_method
        self.doc_concentration = doc_concentration
        self.corpus_concentration = corpus_concentration
        self.topic_word_prior = topic_word_prior
        self.burstiness = burstiness
        self.learn_priors = learn_priors
        self.corpus_concentration_prior = corpus_concentration_prior
        self.doc_concentration_prior = doc_concentration_prior
        self.split_merge = split_merge
        self.batch_size = batch_size
        self.learning_offset = learning_offset
        self.learning_decay = learning_decay
        self.total_samples = total_samples
        self.max_iter = max_iter
        self.tol = tol
        self.max_doc_update_iter = max_doc_update_iter
        self.mean_change_tol = mean_change_tol
        self.warm_up = warm_up
        self.init = init
        self.sparse_output = sparse_output
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.warm_start = warm_start

    # -- learning ---------------------------------------------------------------------

    @property
    def _is_collapsed(self) -> bool:
        return self.variational_family == "collapsed"

    @property
    def _learns_burstiness(self) -> bool:
        return self._is_collapsed and self.burstiness == "auto"

    def _make_model(self) -> HDPModel:
        moves = self._moves()
        if self._is_collapsed and moves is not None and moves.criterion == "bound":
            raise ValueError(
                'SplitMerge(criterion="bound") needs variational_family="mean_field": '
                "the collapsed family has no bound."
            )
        is_printed = moves is not None and moves.algorithm == "paper"
        if is_printed and self.learning_method != "online":
            raise ValueError(
                'SplitMerge(algorithm="paper") needs learning_method="online": it is '
                f"judged by minibatches. Got {self.learning_method!r}."
            )
        model = CollapsedHDP if self._is_collapsed else DirectHDP
        return model(**self._learned())

    def _learning_step(self):
        return CollapsedStep if self._is_collapsed else DocumentStep

    def _infer_counts(self, posterior, counts, executor):
        """Infer them as `score` does, or in the mean-field family by its own step."""
        if not self._is_collapsed:
            return super()._infer_counts(posterior, counts, executor)
        return fold_in_posterior(posterior, counts, executor)

    def _expected_uses(self, counts):
        result, uses = super()._expected_uses(counts)
        if self._is_collapsed and self._posterior.state.burstiness is not None:
            with Executor(self.n_jobs) as executor:
                uses = first_uses(self._posterior, counts, executor)
        return result, uses

    def _start(self, model, counts, seed_entropy, n_docs):
        """Start from documents that do not judge trials: no topic starts from one."""
        corpus = self._corpus(counts, seed_entropy)
        seen = SeenWords.of(corpus.word_counts())
        held_out = (
            self._hold_out(corpus, seed_entropy) if self._has_time_for_trials else None
        )
        train = corpus if held_out is None else held_out.train
        return self._start_from(train, seen, model, seed_entropy, n_docs)

    def _start_stream(self, model, counts, seed_entropy, n_docs):
        """Start from documents that will not be held out."""
        seen = SeenWords.of(Corpus(counts).word_counts())
        if self._reservoir_moves() is not None:
            reservoir = Reservoir.empty(counts.shape[1], n_seen=0)
            learned = reservoir.select_learned(counts, seed_entropy)
            counts = learned if learned.shape[0] > 0 else counts
        corpus = self._corpus(counts, seed_entropy)
        return self._start_from(corpus, seen, model, seed_entropy, n_docs)

    def _start_topics(self, corpus, words, n_components, rng):
        """Mixtures of a document each, and of the corpus with noise, (n_words, K).

        Collapsed learning needs no noise in words that neither holds.
        """
        whole = corpus.word_counts()
        if not (self._is_collapsed and self.init == "docs" and whole.sum() > 0.0):
            return super()._start_topics(corpus, words, n_components, rng)
        drawn = drawn_documents(corpus, words, n_components, rng)
        return blur(drawn, DOC_SHARE, whole[words], rng)

    def _mix_with_corpus(self, documents, whole, rng):
        if not self._is_collapsed or whole.sum() <= 0.0:
            return super()._mix_with_corpus(documents, whole, rng)
        return blur(documents, DOC_SHARE, whole, rng)

    def _resumed(self, model, *, in_fit):
        if type(model) is not type(self._posterior.model):
            raise ValueError(
                f"variational_family={self.variational_family!r}, but the fit to go on "
                "from began with the other one."
            )
        posterior: Any = super()._resumed(model, in_fit=in_fit)
        state = posterior.state
        by_tables = state.by_tables and in_fit  # a stream learns from tokens
        burstiness = state.burstiness if self._learns_burstiness else None
        posterior.state = replace(state, burstiness=burstiness, by_tables=by_tables)
        if in_fit:
            posterior.reservoir = None  # a fit learns what was held out
            posterior.move_records = MoveRecords()  # of the topics before it
        return posterior

    def _widened(self, posterior, rows, vocabulary):
        posterior = super()._widened(posterior, rows, vocabulary)
        if posterior.reservoir is not None:
            reservoir = posterior.reservoir.widened(len(vocabulary.names))
            posterior = replace(posterior, reservoir=reservoir)
        return posterior

    def _publish_edits(self):
        self._posterior.move_records = MoveRecords()  # it is about other topics
        super()._publish_edits()

    _saved_parts = {
        "model": (DirectHDP, CollapsedHDP),
        "state": HDPState,
        "global_stats": (HDPStats, CollapsedStats),
    }

    def _check_saved(self):
        check_kinds(self, _posterior=HDPPosterior)
        super()._check_saved()
        posterior = self._posterior
        stats = HDPStats if isinstance(posterior.model, DirectHDP) else CollapsedStats
        check_kinds(posterior, global_stats=stats)
        weights = posterior.state.weights
        check_array("weights", weights, weights.shape, least=1e-300, most=1.0)
        self._check_prediction(posterior.state)
        if posterior.reservoir is not None:
            self._check_reservoir(posterior.reservoir)

    def _check_prediction(self, state: HDPState) -> None:
        most = 2.0 * max(HIGHEST, state.doc_concentration)
        result = state.prediction_concentration
        check_number("prediction_concentration_", result, least=0.0, most=most)
        burstiness = state.burstiness
        if burstiness is not None:
            check_kinds(state, burstiness=Burstiness)
            discount, concentration = burstiness.discount, burstiness.concentration
            check_number("word_discount_", discount, least=0.0, most=MOST_DISCOUNT)
            most = 2.0 * MOST_CONCENTRATION  # as exponentials round
            check_number("word_concentration_", concentration, least=0.5, most=most)

    def _check_reservoir(self, reservoir: Reservoir) -> None:
        keys, last = reservoir.keys, (reservoir.last_key, reservoir.last_held_key)
        if not (
            isinstance(keys, np.ndarray)
            and keys.dtype == np.uint64
            and keys.ndim == 1
            and keys.dtype.isnative
            and all(isinstance(key, int) and 0 < key <= LAST_KEY for key in last)
        ):
            raise ValueError("The saved reservoir is damaged: it has other keys.")
        shape = (keys.size, self.n_features_in_)
        check_sparse("reservoir", reservoir.counts, shape, kind="f")
        for name in ("n_before", "n_next", "n_last", "n_scored", "score_spread"):
            check_number(name, getattr(reservoir, name), least=0, most=LARGE)
        check_number("surprise", reservoir.surprise, least=0, most=LARGE)
        check_number("mean_score", reservoir.mean_score, least=-LARGE, most=0.0)

    def _least_samples(self, posterior, counts) -> float:
        """As many as hold the tokens of the topics' prior.

        Of fewer, most topics would have next to nothing but their prior, and end.
        """
        if not self._is_collapsed or counts.shape[0] == 0:
            return 0.0
        n_entries = posterior.state.n_components * counts.shape[1]
        prior = n_entries * posterior.state.topic_word_prior
        n_tokens = counts.sum() / counts.shape[0]  # of a document
        return prior / max(n_tokens, 1e-300)

    def _why_not_converged(self) -> str:
        if self._is_collapsed:
            return "leaves no two passes to compare."
        return super()._why_not_converged()

    @property
    def _n_enough_docs(self) -> int:
        return 0 if self._moves() is None else ENOUGH_DOCS

    def _has_trials_left(self, posterior) -> bool:
        return self._held_out_moves() is not None and not posterior.trials_ended

    def _warn_if_not_converged(self, monitor) -> None:
        if self._has_time_for_trials and self._posterior.trials_ended:
            warn_if_many_topics(self.n_components_, self._posterior.n_seen)
        moves, n_left = self._held_out_moves(), self.max_iter - self.n_iter_
        if self.tol > 0 and moves is not None and not self._posterior.trials_ended:
            is_short = n_left < moves.trial_passes + self._final_passes
            if is_short or not self._has_time_for_trials:
                warn_caller(
                    f"max_iter={self.max_iter} leaves no time for further trials: the "
                    "number of topics may not be final. Increase max_iter.",
                    ConvergenceWarning,
                )
        else:
            super()._warn_if_not_converged(monitor)

    def _stream_warm_up(self, posterior) -> float:
        return 0.0 if self._is_collapsed else super()._stream_warm_up(posterior)

    def _n_started(self) -> int:
        return n_given(self.init) if self._is_given else self.n_components

    def _start_state(self, n_docs: float, shares) -> HDPState:
        """Topics of equal weight, or of those of a model."""
        if shares is None:
            weights = np.full(self.n_components + 1, 1.0 / (self.n_components + 1))
        else:
            weights = np.append(shares, 1.0 - shares.sum())
            weights = np.maximum(weights, SMALLEST_WEIGHT)
            weights /= weights.sum()
        return HDPState(
            weights=weights,
            doc_concentration=float(self.doc_concentration),
            corpus_concentration=float(self.corpus_concentration),
            topic_word_prior=base_prior(self.topic_word_prior),
        )

    def _limit(self) -> float:
        n_started = self._n_started()
        if self.max_components is None:
            return max(MOST_TOPICS, n_started)
        if self.max_components < n_started:
            where, cure = f"n_components={n_started}", "set that, too"
            if self._is_given:
                where, cure = f"the {n_started} topics of init", "or drop some of them"
            raise ValueError(
                f"max_components={self.max_components} must be at least {where}, "
                f"where fits start: {cure}."
            )
        return self.max_components

    def _moves(self) -> SplitMerge | None:
        if self.split_merge is True:
            return SplitMerge()
        return self.split_merge or None

    def _held_out_moves(self) -> SplitMerge | None:
        """Return the moves if held-out documents judge them."""
        moves = self._moves()
        return moves if moves is not None and moves.criterion == "held_out" else None

    def _batch_size(self, counts) -> int:
        if not isinstance(self.batch_size, str):
            return self.batch_size
        return self._batch_size_of(counts.sum(), counts.shape[0])

    @staticmethod
    def _batch_size_of(n_tokens: float, n_docs: int) -> int:
        """Return that of minibatches that are large enough to say something."""
        n_tokens = max(n_tokens / max(n_docs, 1), 1.0)  # of a document
        return max(LEAST_DOCS, int(np.ceil(LEAST_TOKENS / n_tokens)))

    def _around(self, posterior, counts, executor):
        corpus = self._corpus(counts, posterior.seed_entropy)
        return self._around_corpus(posterior, corpus, executor)

    def _around_corpus(self, posterior, corpus, executor):
        local_step, held_out = self._local_step(executor), None
        if self._held_out_moves() is not None:
            held_out = self._hold_out(corpus, posterior.seed_entropy)
        train = None if held_out is None else held_out.train
        return (
            corpus,
            local_step,
            held_out,
            train,
            partial(self._final_learner, corpus, local_step),
        )

    def _make_learner(self, posterior, around, goes_on):
        """Trials of other numbers of topics where they are due, and what follows."""
        corpus, local_step, held_out, _, finish, *_ = around
        moves = self._held_out_moves()
        if moves is not None and not posterior.trials_ended:
            if held_out is None:
                posterior.trials_ended = True  # there is nothing to judge by
            elif self._has_time_for_trials:
                return HeldOutTrials(
                    self._trial_learner(posterior, held_out, local_step, goes_on),
                    held_out,
                    moves,
                    self.max_iter,
                    finish,
                    n_final_passes=self._final_passes,
                    prior_limit=self._prior_limit,
                    learns_burstiness=self._learns_burstiness,
                )
        warm_up = 0 if goes_on else self._warm_up
        documents = self._documents(corpus, goes_on)
        learner = self._learner(posterior, corpus, local_step, warm_up, documents)
        if self._learns_burstiness and posterior.state.burstiness is None:
            learner.moves = LearnBurstiness(learner.moves)
        return learner

    def _hold_out(self, corpus, seed_entropy):
        """Hold documents out that judge trials; None if there are too few.

        The same ones in a fit that goes on: after an interrupt during trials nothing
        has learned from them.
        """
        return hold_out(corpus.X, stream(seed_entropy, Purpose.SPLIT_TOKENS, 0))

    def _final_learner(self, corpus, local_step, held_out, posterior, last):
        """Return what learns from everything after trials; `last` learned before."""
        documents = last.cache.documents
        if hasattr(documents, "spread"):
            documents = documents.spread(held_out.rows, corpus.n_docs)
        warm_up = min(self._warm_up, self._final_passes - FINAL_EXACT_PASSES)
        n_forgetting = self._final_passes // 2 if self._is_collapsed else np.inf
        return self._learner(
            posterior, corpus, local_step, warm_up, documents, n_forgetting
        )

    @property
    def _warm_up(self) -> int:
        """First passes with mean weights."""
        return 0 if self._is_collapsed else self.warm_up

    def _documents(self, corpus, goes_on) -> DocumentCache:
        """What documents are remembered by in running averages."""
        if self._is_collapsed:  # the document step takes out what totals hold of them
            return DocumentWeights(corpus.n_docs, float(goes_on))
        return NOTHING

    def _round_moves(self) -> Moves:
        moves = self._moves()
        if moves is None:
            return NO_MOVES
        if moves.criterion == "held_out":
            return EndUnused(moves)
        is_printed = moves.algorithm == "paper"
        return PrintedMoves(moves) if is_printed else MinibatchMoves(moves)

    def _learner(
        self, posterior, corpus, local_step, warm_up, documents, n_forgetting=np.inf
    ):
        """What learns from all documents, as the parameters say."""
        moves: Any = self._moves()
        cache: Any = self._cache(warm_up, documents)
        by_bound = moves is not None and moves.criterion == "bound"
        exact = ExactMoves(moves) if by_bound and cache.holds_corpus else None
        learner = Learner(
            posterior,
            corpus,
            self._fit_schedule(posterior, corpus, n_forgetting),
            local_step,
            cache,
            exact or self._round_moves(),
            warm_up=warm_up * corpus.n_docs,
        )
        return learner if exact is None else BoundTrials(learner, moves, self.max_iter)

    def _cache(self, warm_up, documents):
        """Return what a fit remembers of parts."""
        if self.learning_method == "online":
            return RunningAverage(documents)
        if self._is_collapsed:
            return CollapsedCache(documents)
        return MeanFieldCache(max(warm_up, 1))

    def _trial_learner(self, posterior, held_out, local_step, goes_on) -> Learner:
        """Learn from the documents that are not held out."""
        return Learner(
            posterior,
            held_out.train,
            self._rounds(posterior, held_out.train, first_step=0),
            local_step,
            RunningAverage(self._documents(held_out.train, goes_on)),
            self._round_moves(),
            warm_up=self._warm_up * held_out.train.n_docs,
        )

    def _rounds(self, posterior, corpus, **changes) -> OnlineSchedule:
        """Return when the documents of a fit are visited online."""
        return self._schedule(posterior, corpus.X, **changes)

    def _fit_schedule(self, posterior, corpus, n_forgetting) -> Schedule:
        if self.learning_method == "batch":
            return BatchSchedule(corpus.n_docs)
        if self.learning_method == "memoized":
            return self._rounds(posterior, corpus, reshuffle=False)
        schedule = self._rounds(posterior, corpus, n_forgetting=n_forgetting)
        return schedule.remembering(REMEMBERED)

    @property
    def _final_passes(self) -> int:
        return FINAL_PASSES if self._is_collapsed else FINAL_PASSES_MEAN_FIELD

    @property
    def _prior_limit(self) -> float | None:
        """Largest topic prior while topics grow in number; None if none is learned."""
        learns = self._is_collapsed and self.learn_priors == "auto"
        return base_prior(self.topic_word_prior) if learns else None

    def _fewest_passes(self, moves: SplitMerge) -> int:
        """Passes of a fit with one trial."""
        return 2 * moves.trial_passes + self._final_passes

    @property
    def _has_time_for_trials(self) -> bool:
        """Whether a fit has trials that held-out documents judge."""
        moves = self._held_out_moves()
        return moves is not None and self.max_iter >= self._fewest_passes(moves)

    def _reservoir_moves(self) -> SplitMerge | None:
        """Return the moves of a stream if documents that are kept judge them."""
        moves = self._held_out_moves()
        return None if moves is None or moves.reservoir_tokens == 0 else moves

    def _learn_chunk(self, posterior, counts, executor, monitor) -> None:
        posterior.trials_ended = True  # a stream keeps its topics in later fits
        moves = self._reservoir_moves()
        if moves is None:
            n_before = posterior.n_seen
            super()._learn_chunk(posterior, counts, executor, monitor)
            if self._learns_burstiness and has_doubled(n_before, posterior.n_seen):
                suit_burstiness_to(Corpus(counts), posterior, executor)
            return
        if posterior.reservoir is None:
            n_seen = posterior.n_seen
            posterior.reservoir = Reservoir.empty(counts.shape[1], n_seen)
        begin, batch_size = 0, self._batch_size(counts)
        while begin < counts.shape[0]:
            n_left = counts.shape[0] - begin
            end = begin + self._next_part(posterior.reservoir, n_left, batch_size)
            if posterior.n_steps > 0:
                some = counts[begin:end][evenly(end - begin, SCORED)]
                scores = score_documents(posterior, some, executor)
                posterior.reservoir = posterior.reservoir.scored(scores)
            posterior.reservoir, learned = posterior.reservoir.add(
                counts[begin:end], moves.reservoir_tokens, posterior.seed_entropy
            )
            if learned.shape[0] == 0 and posterior.n_steps == 0:
                learned = counts[begin:end]  # there is nothing else yet
            if learned.shape[0] > 0:
                super()._learn_chunk(posterior, learned, executor, monitor)
            self._try_numbers(posterior, executor, monitor, moves)
            begin = end

    @staticmethod
    def _next_part(reservoir: Reservoir, n_left: int, batch_size: int) -> int:
        """Documents to learn from until other numbers of topics may be tried."""
        size = max(batch_size, int(PART_SHARE * len(reservoir.keys)))
        return -(-n_left // -(-n_left // size))  # parts of equal size

    def _try_numbers(self, posterior, executor, monitor, moves) -> None:
        """Try other numbers of topics if a stream has grown enough."""
        reservoir = posterior.reservoir
        if not reservoir.is_due:
            return
        rng = stream(posterior.seed_entropy, Purpose.SPLIT_TOKENS, posterior.n_steps)
        held_out = reservoir.held_out(rng)
        if held_out is None:
            return
        local_step = self._local_step(executor)

        def learner(posterior):
            return self._trial_learner(posterior, held_out, local_step, goes_on=True)

        least = self._least_samples(posterior, held_out.train.X)
        n_docs = max(self.total_samples or posterior.n_seen, least)
        n_accepted = try_on_sample(
            posterior,
            learner,
            held_out,
            moves,
            self._prior_limit,
            self._learns_burstiness,
            n_docs,
            monitor,
        )
        posterior.reservoir = reservoir.tried(n_accepted)

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
