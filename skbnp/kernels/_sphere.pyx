"""Scores of sparse rows under many directions on the sphere, the best of them kept.

Directions stand in tiles of `TILE` nodes: (n_tiles, n_words, TILE) floats, so that what
rows read of a tile is two cache lines per word, and a tile stays in the cache while all
rows go by it; the next one is fetched meanwhile. Passes over the words of a row are in
src/sphere.h.
"""

from libc.math cimport INFINITY
from libc.stdint cimport int32_t

from skbnp.kernels._interrupts cimport count_work

cdef extern from "src/sphere.h" nogil:
    """
    struct skbnp_score_rows;
    SKBNP_CLONES static Py_ssize_t skbnp_score_all(
        const struct skbnp_score_rows *, Py_ssize_t);
    """
    enum:
        WIDE "TILE"
    void fetch_word(const float* part)
    void dot_tile(
        Py_ssize_t n, Py_ssize_t n_next, const int32_t* words, const float* values,
        const float* tile, float* dot,
    )
    double score_dots(
        const float* dot, const double* prior, double strength, double* score
    )

#: Nodes of a tile.
TILE = WIDE
#: Nats below the best at which a node counts for nothing.
NEGLIGIBLE = 40.0

cdef enum:
    # Rows that are scored under a tile before the best of each are kept: branches that
    # were not predicted would keep the words of the next row from being read.
    GROUP = 32


# Rows, directions, and the best nodes of each row.
cdef struct ScoreRows "skbnp_score_rows":
    const int32_t* indptr
    const int32_t* words
    const float* values
    Py_ssize_t n_words, n_tiles, n_best
    const float* table          # (n_tiles, n_words, TILE)
    const double* prior         # (n_tiles * TILE,)
    double strength
    int32_t* nodes              # (n_rows, n_best)
    double* scores              # (n_rows, n_best)
    Py_ssize_t* done            # work, for `count_work`


cdef inline void insert(
    double score, int32_t node, Py_ssize_t n_best, int32_t* nodes, double* scores,
) noexcept nogil:
    """Insert a node among the best of a row, of equal ones the lower number first."""
    cdef Py_ssize_t at = n_best - 1
    if score < scores[at] or (score == scores[at] and node > nodes[at]):
        return
    while at > 0 and (
        score > scores[at - 1] or (score == scores[at - 1] and node < nodes[at - 1])
    ):
        scores[at], nodes[at] = scores[at - 1], nodes[at - 1]
        at -= 1
    scores[at], nodes[at] = score, node


cdef inline double score_row(
    const ScoreRows* s, Py_ssize_t row, Py_ssize_t t, Py_ssize_t n_next, double* score
) noexcept nogil:
    """Score a row under the nodes of a tile; the largest."""
    cdef float[WIDE] dot
    cdef Py_ssize_t begin = s.indptr[row], n = s.indptr[row + 1] - begin
    dot_tile(
        n, n_next, s.words + begin, s.values + begin, s.table + t * s.n_words * WIDE,
        dot,
    )
    return score_dots(dot, s.prior + t * WIDE, s.strength, score)


cdef inline void keep_best(
    const ScoreRows* s, Py_ssize_t row, Py_ssize_t t, const double* score, double most
) noexcept nogil:
    """Insert the nodes of a tile among the best of a row, given their scores."""
    cdef double* scores = s.scores + row * s.n_best
    cdef Py_ssize_t k
    if most < scores[s.n_best - 1]:
        return
    for k in range(WIDE):
        if score[k] > -INFINITY:
            insert(
                score[k], <int32_t>(t * WIDE + k), s.n_best,
                s.nodes + row * s.n_best, scores,
            )


cdef inline int score_group(
    const ScoreRows* s, Py_ssize_t first, Py_ssize_t last, Py_ssize_t n_rows,
    Py_ssize_t t,
) except -1 nogil:
    """Insert the nodes of a tile among the best of at most `GROUP` rows."""
    cdef double[GROUP][WIDE] score
    cdef double[GROUP] most
    cdef Py_ssize_t row, n_next
    for row in range(first, last):
        n_next = 0
        if row + 1 < n_rows:
            n_next = s.indptr[row + 2] - s.indptr[row + 1]
        most[row - first] = score_row(s, row, t, n_next, score[row - first])
    for row in range(first, last):
        keep_best(s, row, t, score[row - first], most[row - first])
    count_work((s.indptr[last] - s.indptr[first] + last - first) * WIDE, s.done)
    return 0


cdef inline void fetch_share(
    const ScoreRows* s, Py_ssize_t t, Py_ssize_t first, Py_ssize_t last,
    Py_ssize_t n_rows,
) noexcept nogil:
    """Fetch the share of a tile that falls to some of the rows."""
    cdef Py_ssize_t word
    for word in range(first * s.n_words // n_rows, last * s.n_words // n_rows):
        fetch_word(s.table + (t * s.n_words + word) * WIDE)


cdef Py_ssize_t _score_all "skbnp_score_all"(
    const ScoreRows* s, Py_ssize_t n_rows
) except -1 nogil:
    """Score rows under all nodes."""
    cdef Py_ssize_t row, last, t, i
    cdef bint reads_all = s.indptr[n_rows] >= s.n_words  # of a tile, or nearly so
    for i in range(n_rows * s.n_best):
        s.nodes[i], s.scores[i] = -1, -INFINITY
    for t in range(s.n_tiles):
        row = 0
        while row < n_rows:
            last = row + GROUP if row + GROUP < n_rows else n_rows
            if reads_all and t + 1 < s.n_tiles:
                fetch_share(s, t + 1, row, last, n_rows)
            score_group(s, row, last, n_rows, t)
            row = last
    return 0


def score_rows(
    const int32_t[::1] indptr,          # IN    (n_rows + 1,)
    const int32_t[::1] words,           # IN    (nnz,) below n_words
    const float[::1] values,            # IN    (nnz,) rows of length one at most
    const float[:, :, ::1] table,       # IN    (n_tiles, n_words, TILE) E
    const double[::1] prior,            # IN    (n_tiles * TILE,) -inf: not there
    double strength,                    # IN    beta > 0
    int32_t[:, ::1] nodes,              # OUT   (n_rows, n_best) -1: none
    double[:, ::1] scores,              # OUT   (n_rows, n_best) -inf: none
) -> None:
    """Find the nodes k of highest score prior_k + beta E_k'x for each row x.

    They come best first, of equal scores the lower number first.

    Time O(nnz n_nodes), in single precision; scores are formed in double precision.
    Allocates nothing. Results of a row do not depend on other rows.
    """
    cdef Py_ssize_t n_rows = indptr.shape[0] - 1, done = 0
    cdef int32_t no_word = 0
    cdef float nothing = 0.0
    cdef ScoreRows s
    s.n_tiles, s.n_words, s.n_best = table.shape[0], table.shape[1], nodes.shape[1]
    if n_rows < 0 or words.shape[0] != values.shape[0] or (
        indptr[n_rows] != words.shape[0]
    ):
        raise ValueError("indptr, words and values disagree on the rows")
    if not nodes.shape[0] == scores.shape[0] == n_rows:
        raise ValueError("nodes and scores must have an entry per row")
    if s.n_best != scores.shape[1] or s.n_best == 0:
        raise ValueError("nodes and scores must have equal columns, one at least")
    if table.shape[2] != WIDE or prior.shape[0] != s.n_tiles * WIDE:
        raise ValueError(f"table must have tiles of {WIDE}, prior an entry for each")
    if n_rows == 0:
        return
    s.indptr, s.strength, s.done = &indptr[0], strength, &done
    s.words, s.values, s.table = &no_word, &nothing, &nothing  # what is not read
    s.prior = NULL
    if words.shape[0]:
        s.words, s.values = &words[0], &values[0]
    if s.n_tiles:
        s.prior = &prior[0]
    if s.n_tiles and s.n_words:
        s.table = &table[0, 0, 0]
    s.nodes, s.scores = &nodes[0, 0], &scores[0, 0]
    with nogil:
        _score_all(&s, n_rows)
