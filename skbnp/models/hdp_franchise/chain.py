"""Gibbs chain of the HDP by the Chinese restaurant franchise: steps of a sweep."""

from dataclasses import asdict, dataclass, replace

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from skbnp import distributions as draws
from skbnp.components.known_topics import TopicPriors, best_columns
from skbnp.distributions import GammaPrior
from skbnp.inference import chains
from skbnp.inference.executor import Executor, RunTasks, run_in_turn
from skbnp.inference.posterior import Lineage
from skbnp.kernels._franchise import sweep
from skbnp.kernels._seating import group
from skbnp.kernels._split_merge import SPLIT, propose
from skbnp.models.hdp.fold_in import FixedTopics, MixturePredictor
from skbnp.models.hdp.groups import Groups
from skbnp.models.hdp_franchise import model
from skbnp.models.hdp_franchise.model import FranchiseSample
from skbnp.rows.batch import Tokens
from skbnp.utils.labels import MISSING
from skbnp.utils.random import Purpose, stream
from skbnp.utils.typing import Array, Ints, Ints32

# Hyperparameters of the Chinese restaurant franchise, drawn given a seating.


@dataclass(frozen=True, slots=True)
class Priors:
    """Gamma(shape, rate) priors of the hyperparameters that are learned."""

    learn_concentrations: bool
    learn_topic_prior: bool
    corpus: GammaPrior
    doc: GammaPrior
    topic: GammaPrior = (1.0, 1.0)
    group: GammaPrior = (1.0, 1.0)
    word: GammaPrior = model.VAGUE  # of what documents repeat, which is always learned

    def resample(self, seating: model.Seating, rng: np.random.Generator) -> None:
        """Draw the hyperparameters that are learned, in place, given the seating.

        With groups of documents their tables come first, the corpus weights last.
        """
        seating.seat_groups(rng)
        if self.learn_concentrations:
            n_customers = seating.customers.sum(keepdims=True)
            of_levels = [
                ("corpus", n_customers, seating.n_dishes, self.corpus),
                ("doc", seating.n_seated, seating.n_tables.sum(), self.doc),
            ]
            if seating.has_groups:
                tables = seating.group_tables()[:-1].sum(axis=1)
                n_tables = seating.n_group_tables
                of_levels.append(("group", tables, n_tables, self.group))
            for level, sizes, n_tables, prior in of_levels:
                name, sizes = f"{level}_concentration", sizes[sizes > 0]
                given = getattr(seating, name), sizes, n_tables, prior, rng
                setattr(seating, name, draws.draw_concentration(*given))
        if self.learn_topic_prior:
            counted = seating.count_of_counts()
            seating.topic_word_prior = draws.draw_by_slice(
                seating.topic_word_prior,
                lambda eta: seating.log_evidence(eta, counted),
                self.topic,
                rng,
            )
            seating.set_rates()
        repeats = seating.repeats()
        if repeats is not None:
            now = seating.word_discount, seating.word_concentration
            drawn = repeats.draw(*now, self.word, rng)
            seating.word_discount, seating.word_concentration = drawn
        seating.draw_weights(rng)

    def log_density(self, seating: model.Seating) -> float:
        """Log prior density of the hyperparameters that are learned."""
        total = 0.0
        if self.learn_concentrations:
            total += draws.log_gamma_density(seating.corpus_concentration, self.corpus)
            total += draws.log_gamma_density(seating.doc_concentration, self.doc)
            if seating.has_groups:
                a = seating.group_concentration
                total += draws.log_gamma_density(a, self.group)
        if self.learn_topic_prior:
            total += draws.log_gamma_density(seating.topic_word_prior, self.topic)
        if seating.word_size is not None:
            total += draws.log_gamma_density(seating.word_concentration, self.word)
        return total


# Split-merge Metropolis-Hastings on tables, Figure 2 of Wang and Blei (2012).
#
# Two random tables are drawn. If they serve the same dish, a split of it is proposed,
# if not, a merge of their dishes; the other tables of the dish are allocated one by
# one, by what has been allocated so far, as in Dahl (2005); or by a last one of some
# restricted Gibbs scans, as in Jain and Neal (2004). The kernel computes and decides.


def propose_moves(
    seating: model.Seating, n_proposals: int, rng: np.random.Generator, n_scans: int = 0
) -> list[tuple[bool, int, int]]:
    """Make `n_proposals` split-merge proposals in place, one after another.

    Each follows `n_scans` restricted scans. Returns those accepted: whether it was a
    split, and the numbers of the dish that stays and of the other.
    """
    accepted: list[tuple[bool, int, int]] = []
    if seating.n_all_tables < 2:
        return accepted
    words, begin = np.zeros((2, len(seating.words)), dtype=np.int32)
    group(seating, seating.workspace, words, begin)
    listed = None
    for _ in range(n_proposals):
        if seating.n_free == 0 and seating.n_served == len(seating.dish_tables):
            seating.make_places()
        listed = listed or _list_tables(seating)
        if len(listed[0]) < 2:
            return accepted
        outcome, stays, comes = propose(
            seating,
            seating.workspace,
            words,
            begin,
            *listed,
            n_scans,
            rng.bit_generator,
        )
        if outcome:
            accepted.append((outcome == SPLIT, stays, comes))
            listed = None
            if outcome == SPLIT:
                seating.is_new[comes] = 0
    return accepted


def _list_tables(seating: model.Seating) -> tuple[Ints32, Ints32, NDArray[np.int64]]:
    """All tables dish by dish: their documents and numbers, limits of the dishes.

    Except tables of dishes from before, which neither split nor merge.
    """
    dish = seating.dish[seating.live()]
    tables = np.bincount(dish, minlength=seating.n_served)
    if seating.n_served <= np.iinfo(np.uint16).max:
        dish = dish.astype(np.uint16)  # by radix
    order = np.argsort(dish, kind="stable")
    if seating.before is not None:  # their dishes are the first
        n_before = len(seating.before.tables)
        order = order[tables[:n_before].sum() :]
        tables[:n_before] = 0
    n = seating.n_tables
    doc = np.repeat(np.arange(len(n), dtype=np.int32), n)
    number = np.arange(len(doc), dtype=np.int32)
    number -= (np.cumsum(n, dtype=np.int32) - n)[doc]
    first = np.cumsum(tables, dtype=np.int64)
    return doc[order], number[order], np.concatenate([[0], first])


#: Columns of the history of a fit.
COLUMNS = (
    "step",
    "chain",
    "seconds",
    "n_components",
    "n_tables",
    "log_joint",
    "n_splits",
    "n_merges",
    "doc_concentration",
    "corpus_concentration",
    "topic_word_prior",
    "word_discount",
    "word_concentration",
    "group_concentration",
)
#: Tokens of a piece of a sweep, about: some 20 ms.
TOKENS_PER_PIECE = 1 << 17


@dataclass(frozen=True, slots=True, kw_only=True)
class FranchiseStart(chains.ChainStart):
    """Seating or topics that a chain starts from, with the lineage until then."""

    concentrations: model.Concentrations
    tables: model.TableAssignments | None = None  # None: tokens are seated one by one
    ids: Ints | None = None  # names of the tables' dishes; None: new ones


@dataclass(frozen=True, slots=True, kw_only=True)
class FranchiseState(chains.ChainState):
    """State of a chain between two sweeps; its components are dishes."""

    tables: model.TableAssignments
    concentrations: model.Concentrations
    n_splits: int
    n_merges: int
    corpus: model.Corpus | None = None  # if documents have groups


class FranchiseChain(chains.GibbsChain[FranchiseState]):
    """One Gibbs chain of the franchise: sweeps, split-merge proposals, hyperparameters.

    Of the fit are `seed_entropy`, and `start` with the `number` of the chain if it
    begins. The first `proposal_sweeps` sweeps make `n_proposals` split-merge proposals
    each, of `n_scans` restricted Gibbs scans (0: sequential allocation). `before` are
    counts of documents that are gone, or of the prior of known topics; its topics are
    the first dishes of the start, if it has dishes. Documents may repeat words after
    `repeats_from` sweeps, or from the start; None: never. After each of the first
    `exchange_sweeps` sweeps priors of `known` topics, whose columns are ids, go to the
    topics that have taken their words, see `best_columns`: that is no move of a
    sampler, and belongs to the burn-in. `group_limits` as of `Seating`.
    """

    def __init__(
        self,
        tokens: Tokens,
        priors: Priors,
        seed_entropy: int,
        start: FranchiseStart | FranchiseState,
        *,
        number: int = 0,
        n_proposals: int = 0,
        proposal_sweeps: int = 0,
        n_scans: int = 0,
        before: FranchiseSample | None = None,
        before_is_prior: bool = False,
        known: TopicPriors | None = None,
        exchange_sweeps: float = 0,
        repeats_from: int | None = None,
        group_limits: Ints | None = None,
    ):
        """Restore a saved state, or seat the tokens of a start, and name the dishes."""
        self.priors, self.seed_entropy = priors, seed_entropy
        self.n_proposals, self.proposal_sweeps = n_proposals, proposal_sweeps
        self.n_scans = n_scans
        self.known, self.exchange_sweeps = known, exchange_sweeps
        self.repeats_from = repeats_from
        places = None
        if before is not None:
            places = replace(before.places(), is_prior=before_is_prior)
        if isinstance(start, FranchiseState):
            n_before = 0 if places is None else len(places.tables)
            _check_tables(start, tokens, n_before)
        self.seating = model.Seating(
            tokens, start.concentrations, start.tables, places, group_limits
        )
        self.pieces = chains.pieces_of(tokens.begin, TOKENS_PER_PIECE)
        if isinstance(start, FranchiseState):
            _check_groups(start, self.seating)
            self.seating.corpus = start.corpus
            self.state = replace(start, lineage=list(start.lineage))
            return
        self.seating.seat_groups()
        self.seating.draw_weights()
        if start.tables is None:
            self._seat(stream(seed_entropy, Purpose.START, number, start.step))
            self.seating.seat_groups()
        ids = np.zeros(0, np.intp) if start.ids is None else start.ids
        if before is not None:
            first = before.component_ids[before.n_tokens > 0]
            ids = np.concatenate([first, ids[len(first) :]])
        next_id = max(start.next_id, 1 + int(ids.max(initial=-1)))
        n_served = self.seating.n_served
        new = named = np.arange(next_id, next_id + n_served - len(ids))
        if n_served == 0 and before is None:
            # An empty corpus has a topic, too, which no token has: the newest name.
            named = np.array([next_id])
        log = [*start.lineage, *chains.birth_entries(start.step, named)]
        if not start.lineage:
            named = np.concatenate([ids, named])
            log = [Lineage(start.step, "init", (), tuple(named.tolist()))]
            named = named[len(ids) :]
        if before is not None and len(ids) + len(new) > 0:
            gone = before.component_ids[before.n_tokens == 0]
            log += chains.end_entries(start.step, gone)
        self.state = FranchiseState(
            number=number,
            step=start.step,
            tables=self.seating.tables(),
            concentrations=start.concentrations,
            ids=np.concatenate([ids, new]),
            next_id=next_id + len(named),
            n_splits=0,
            n_merges=0,
            lineage=log,
            begin=start.step,
            log_joint=self._log_joint(),
            corpus=self.seating.corpus,
        )

    def _seat(self, rng: np.random.Generator) -> None:
        """Seat all tokens in order, each given those before it."""
        for begin, stop in self.pieces:
            self._advance(begin, stop, 0, rng)
        self.seating.tidy()

    def _advance(
        self, begin: int, stop: int, meal_part: int, rng: np.random.Generator
    ) -> None:
        """Resample the seats of tokens of documents; add places for dishes if full."""
        seating = self.seating
        for first, last in seating.parts(begin, stop):
            while first < last:
                work = seating.workspace
                first = sweep(seating, work, first, last, meal_part, rng.bit_generator)
                if first < last:
                    seating.make_places()

    # -- one sweep --------------------------------------------------------------------

    def _sweep(self, begin: int, stop: int, rng: np.random.Generator) -> None:
        """Resample the seats of one piece of the documents; begin repeats if due."""
        n_before, now = self.state.step - self.state.begin, self.seating.concentrations
        is_time = self.repeats_from is not None and n_before >= self.repeats_from
        if begin == 0 and is_time and not now.has_repeats:  # so far all tokens sit
            d, c = model.START
            self.seating.concentrations = replace(
                now, word_discount=d, word_concentration=c
            )
        self._advance(begin, stop, self.seating.meal_part, rng)

    def _end(self, rng: np.random.Generator) -> tuple[FranchiseState, list[Lineage]]:
        """End a sweep: name dishes, split and merge them, draw hyperparameters."""
        state, seating = self.state, self.seating
        step = state.step + 1
        ids, next_id, log = chains.rename(state.ids, self._names(), state.next_id, step)
        n_splits, n_merges = state.n_splits, state.n_merges
        if self.known is not None and step - state.begin <= self.exchange_sweeps:
            ids = self._give_known_priors(self.known, ids, step, log)
        if step - state.begin <= self.proposal_sweeps and self.n_proposals > 0:
            moves = propose_moves(seating, self.n_proposals, rng, self.n_scans)
            for is_split, stays, comes in moves:
                if is_split:
                    ids = np.append(ids, next_id) if comes == len(ids) else ids
                    ids[comes], next_id = next_id, next_id + 1
                    one = int(ids[stays])
                    log.append(Lineage(step, "split", (one,), (one, int(ids[comes]))))
                    n_splits += 1
                else:
                    one, other = int(ids[stays]), int(ids[comes])
                    log.append(Lineage(step, "merge", (one, other), (one,)))
                    n_merges += 1
            if moves:
                places, _ = seating.tidy()
                ids = ids[places]
        self.priors.resample(seating, rng)
        ended = replace(
            state,
            step=step,
            tables=seating.tables(),
            concentrations=seating.concentrations,
            ids=ids,
            next_id=next_id,
            n_splits=n_splits,
            n_merges=n_merges,
            log_joint=self._log_joint(),
            corpus=self.seating.corpus,
        )
        return ended, log

    def _give_known_priors(
        self, known: TopicPriors, ids: Ints, step: int, log: list[Lineage]
    ) -> Ints:
        """Exchange tables of known dishes and those of their words; return the ids."""
        seating, before = self.seating, self.seating.before
        assert before is not None
        place = {name: dish for dish, name in enumerate(ids.tolist())}
        known = replace(known, columns=np.array([place[n] for n in known.columns]))
        counts, old = seating.dish_counts(), known.columns
        words = counts[:, known.words].T.toarray().astype(np.float64)
        tokens = np.asarray(counts.sum(axis=1), np.float64).ravel()
        words[:, old] -= known.values
        tokens[old] -= known.values.sum(axis=0)
        smoothing = counts.shape[1] * seating.topic_word_prior
        new = best_columns(known, words, tokens, smoothing, len(before.tables))
        if (old == new).all():
            return ids
        onto = np.arange(len(ids))
        onto[old], onto[new] = new, old
        tables = seating.tables()
        dish = onto[tables.dish].astype(np.int32)
        lives = np.bincount(dish, minlength=len(ids)) > 0
        lives[: len(before.tables)] = True
        for one, other in zip(old[old != new], new[old != new], strict=True):
            both = int(ids[one]), int(ids[other])
            left = both if lives[other] else both[:1]
            log.append(
                Lineage(step, "exchange" if lives[other] else "merge", both, left)
            )
        dish = (np.cumsum(lives) - 1)[dish].astype(np.int32)
        weights = seating.corpus_weights[: len(ids)]
        seating.restore(replace(tables, dish=dish))
        seating.tidy()
        if seating.has_groups:
            weights = weights[np.argsort(onto)]
            rest = seating.rest + weights[~lives].sum()
            seating.set_weights(np.append(weights[lives], rest))
        return ids[lives]

    def _names(self) -> Ints:
        """Ids of the dishes after a sweep, in their new order; -1 for new ones."""
        ids, (places, is_new) = self.state.ids, self.seating.tidy()
        names = np.full(int(places.max(initial=-1)) + 1, -1, dtype=np.intp)
        n_known = min(len(ids), len(names))
        names[:n_known] = ids[:n_known]
        return np.where(is_new, -1, names[places])

    def _log_joint(self) -> float:
        total = self.seating.log_joint() + self.priors.log_density(self.seating)
        return total / max(len(self.seating.words), 1)

    def _restore(self, state: FranchiseState) -> None:
        self.seating.concentrations = state.concentrations
        self.seating.restore(state.tables)
        self.seating.corpus = state.corpus

    # -- what it tells ----------------------------------------------------------------

    def trace(self) -> dict[str, object]:
        """Return the entries of the last complete sweep in the history."""
        state, concentrations = self.state, asdict(self.state.concentrations)
        if not self.seating.has_groups:
            concentrations["group_concentration"] = np.inf
        return {
            **super().trace(),
            "n_tables": self.seating.n_all_tables,
            "n_splits": state.n_splits,
            "n_merges": state.n_merges,
            **concentrations,
        }

    def sample(self, run: RunTasks = run_in_turn) -> FranchiseSample:
        """Copy what prediction reads of the present state."""
        return FranchiseSample.of(self.seating, self.state)


def _check_tables(state: FranchiseState, tokens: Tokens, n_before: int) -> None:
    """Raise ValueError if saved tables are not a seating of these tokens."""
    tables, n_docs = state.tables, len(tokens.begin) - 1
    n_all = len(tables.size)
    is_sound = (
        all(
            isinstance(array, np.ndarray)
            and array.shape == shape
            and array.dtype.kind in "iu"
            and array.min(initial=0) >= 0
            for array, shape in (
                (tables.table, (len(tokens),)),
                (tables.n_tables, (n_docs,)),
                (tables.size, (n_all,)),
                (tables.dish, (n_all,)),
                (state.ids, (len(state.ids),)),
                (_word_sizes(state), (len(tokens),)),
            )
        )
        and tables.n_tables.sum(dtype=np.int64) == n_all
        and (tables.table < tables.n_tables[tokens.doc]).all()
        and len(np.union1d(tables.dish, np.arange(n_before)))
        == max(int(tables.dish.max(initial=-1)) + 1, n_before)
        and tables.dish.min(initial=0) >= 0
        and tables.dish.max(initial=-1) < len(state.ids)
    )
    if is_sound:
        first = np.cumsum(tables.n_tables) - tables.n_tables
        sizes = _word_sizes(state)
        assert sizes is not None
        at = (first[tokens.doc] + tables.table)[sizes > 0]
        is_sound = np.array_equal(np.bincount(at, minlength=n_all), tables.size)
        starts, n = tokens.runs()
        result = np.add.reduceat(sizes, starts, dtype=np.int64) if len(n) else n
        is_sound = is_sound and np.array_equal(result, n)
    if not is_sound:
        raise ValueError("The saved tables of a chain are damaged.")


def _check_groups(state: FranchiseState, seating: model.Seating) -> None:
    """Raise unless customers and weights of the corpus may be of saved tables."""
    is_sound = (state.corpus is not None) == seating.has_groups
    if is_sound and state.corpus is not None:
        (tables, weights), most = state.corpus, seating.group_tables().sum(axis=0)
        is_sound = tables.shape == most.shape == weights[1:].shape
        is_sound = is_sound and bool(((tables > 0) & (tables <= most)).all())
        is_sound = is_sound and bool((weights >= 0.0).all())
    if not is_sound:
        raise ValueError("The saved tables of a chain are damaged.")


def _word_sizes(state: FranchiseState) -> NDArray | None:
    """Tokens at each table of a word; 1 each, if documents repeat no words."""
    if state.concentrations.has_repeats:
        return state.tables.word_size
    return np.ones(len(state.tables.table), dtype=np.uint8)


# Prediction of documents that have groups.


def group_priors(
    codes: Ints | None, sample: FranchiseSample, X: sp.csr_array, executor: Executor
) -> Array:
    """Dirichlet parameters of documents, (n_docs, K + 1).

    `codes` are their groups, or that the label is missing, which is inferred then, or
    new; None: all are missing.
    """
    codes = np.full(X.shape[0], MISSING) if codes is None else codes
    weights, alpha = sample.group_weights, sample.doc_concentration
    priors = np.tile(sample.doc_prior, (len(codes), 1))
    priors[codes >= 0] = alpha * weights[codes[codes >= 0]]
    missing = np.flatnonzero(codes == MISSING)
    if len(missing) and sample.group_tables is not None:
        predictor = MixturePredictor([sample], repeats=True)
        doc_topic = predictor.infer_counts(sample, X[missing], executor)
        sizes = sample.group_tables[:-1].sum(axis=1)
        base = sample.doc_prior / sample.flat_concentration
        q = Groups.infer(doc_topic, base, weights - base, sizes, alpha)
        priors[missing] = alpha * (q @ weights)
    return priors


# Start of chains of the Chinese restaurant franchise: topics of tokens.


#: Products of tokens and topics at a time, where a fitted model seats tokens.
PRODUCTS = 1 << 22


def draw_topics(
    tokens: Tokens,
    counts: sp.csr_array,
    topics: FixedTopics | FranchiseSample,
    rng: np.random.Generator,
    executor: Executor,
) -> Ints32:
    """Draw a topic for each token given its document and fixed topics, (n_tokens,)."""
    dish = np.empty(len(tokens), dtype=np.int32)
    n_topics = len(topics.doc_prior) - 1
    per_part = max(PRODUCTS // n_topics, 1)
    docs = max(per_part * counts.shape[0] // max(len(tokens), 1), 1)
    predictor, word_topic = MixturePredictor([topics]), topics.word_topic()
    for first in range(0, counts.shape[0], docs):
        last = min(first + docs, counts.shape[0])
        theta = predictor.infer(topics, counts[first:last], executor)
        for begin in range(tokens.begin[first], tokens.begin[last], per_part):
            part = slice(begin, min(begin + per_part, tokens.begin[last]))
            doc = np.searchsorted(
                tokens.begin, np.arange(part.start, part.stop), side="right"
            )
            masses = theta[doc - 1 - first] * word_topic[tokens.words[part]]
            np.cumsum(masses, axis=1, out=masses)
            x = rng.random(len(masses)) * masses[:, -1]
            drawn = (masses <= x[:, None]).sum(axis=1)
            dish[part] = np.minimum(drawn, n_topics - 1)
    return dish
