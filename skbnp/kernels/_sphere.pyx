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
    enum:
        WIDE "TILE"
    void fetch_word(const float* part)
    double score_row(
        Py_ssize_t n, Py_ssize_t n_next, const int32_t* words, const float* values,
        const float* tile, const double* prior, double strength, double* score,
    )

#: Nodes of a tile.
TILE = WIDE
#: Nats below the best at which a node counts for nothing.
NEGLIGIBLE = 40.0

cdef enum:
    # Rows that are scored under a tile before the best of each are kept: branches that
    # were not predicted would keep the words of the next row from being read.
    GROUP = 32


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
    cdef Py_ssize_t n_rows = indptr.shape[0] - 1, done = 0, row, first, last, t, i, k
    cdef Py_ssize_t n_tiles = table.shape[0], n_words = table.shape[1], n, n_next
    cdef Py_ssize_t n_best = nodes.shape[1]
    cdef int32_t no_word = 0
    cdef float nothing = 0.0
    cdef const int32_t* all_words = &words[0] if words.shape[0] else &no_word
    cdef const float* all_values = &values[0] if words.shape[0] else &nothing
    cdef const float* tile
    cdef double[GROUP][WIDE] score
    cdef double[GROUP] most
    cdef bint reads_all  # of a tile, or nearly so
    if n_rows < 0 or words.shape[0] != values.shape[0] or (
        indptr[n_rows] != words.shape[0]
    ):
        raise ValueError("indptr, words and values disagree on the rows")
    if not nodes.shape[0] == scores.shape[0] == n_rows:
        raise ValueError("nodes and scores must have an entry per row")
    if n_best != scores.shape[1] or n_best == 0:
        raise ValueError("nodes and scores must have equal columns, one at least")
    if table.shape[2] != WIDE or prior.shape[0] != n_tiles * WIDE:
        raise ValueError(f"table must have tiles of {WIDE}, prior an entry for each")
    if n_rows == 0:
        return
    reads_all = indptr[n_rows] >= n_words
    with nogil:
        nodes[:] = -1
        scores[:] = -INFINITY
        for t in range(n_tiles):
            tile = &table[t, 0, 0] if n_words else &nothing
            first = 0
            while first < n_rows:
                last = min(first + GROUP, n_rows)
                if reads_all and t + 1 < n_tiles:  # the share that falls to these rows
                    for i in range(first * n_words // n_rows, last * n_words // n_rows):
                        fetch_word(&table[t + 1, i, 0])
                for row in range(first, last):
                    i, n, n_next = indptr[row], indptr[row + 1] - indptr[row], 0
                    if row + 1 < n_rows:
                        n_next = indptr[row + 2] - indptr[row + 1]
                    most[row - first] = score_row(
                        n, n_next, all_words + i, all_values + i, tile,
                        &prior[t * WIDE], strength, score[row - first],
                    )
                for row in range(first, last):
                    if most[row - first] < scores[row, n_best - 1]:
                        continue
                    for k in range(WIDE):
                        if score[row - first][k] > -INFINITY:
                            insert(
                                score[row - first][k], <int32_t>(t * WIDE + k), n_best,
                                &nodes[row, 0], &scores[row, 0],
                            )
                count_work((indptr[last] - indptr[first] + last - first) * WIDE, &done)
                first = last
