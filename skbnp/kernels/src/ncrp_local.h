/* The document step of topics on the paths of a tree: hot loops.

   Words of a document come `wide` to a row, a multiple of 8; those behind the last have
   count zero. `logs` holds a row of expected logarithms for each node, and for each
   level one of a topic that is not in the tree. A path is n_levels rows of it. */

#ifndef SKBNP_NCRP_LOCAL_H
#define SKBNP_NCRP_LOCAL_H

#include <stddef.h>
#include <stdint.h>

/* Doubles of work space of the functions below. */
size_t skbnp_path_work(size_t wide, size_t n_levels);

/* Rows of the nodes for n words of a document, from a table with a row for each word,
   and of the levels, where all words are alike. */
void skbnp_path_logs(ptrdiff_t n, ptrdiff_t wide, const int32_t *words,
                     ptrdiff_t n_nodes, ptrdiff_t n_levels, const double *log_weights,
                     const double *off_tree, double *logs);

/* exp(logs), relative to the largest of each word, and as another row the logarithms of
   those. */
void skbnp_shared_weights(ptrdiff_t wide, ptrdiff_t n_rows, const double *logs,
                          double *shared);

/* Rows of the levels of some stubs, one stub after another; -1 is not in the tree. */
void skbnp_stub_logs(ptrdiff_t n, ptrdiff_t wide, const int32_t *words,
                     ptrdiff_t n_nodes, ptrdiff_t n_levels, const double *log_weights,
                     const double *off_tree, ptrdiff_t n_stubs, const int32_t *stubs,
                     const int32_t *stub_nodes, double *logs);

/* lnG(sum alpha) - sum_l lnG(alpha_l) - lnG(sum alpha + tokens): what all bounds of a
   document share, and the functions below leave out. */
double skbnp_level_norm(ptrdiff_t n_levels, const double *prior, double n_tokens);

/* Iterate a = alpha + sum_u x_u phi_u, phi_ul ~ exp(psi(a_l)) exp(logs), until
   sum |change| <= tol or max_iter (at least one) times. Puts the factors of the last
   phi to `weights`, and returns its bound

       sum_u x_u sum_l phi_ul (logs - log phi_ul) + sum_l lnG(a_l).

   `shared` saves exponentials; without (NULL) the tile of the path stays in `work`. */
double skbnp_walk(ptrdiff_t wide, ptrdiff_t n_levels, const double *counts,
                  const double *logs, ptrdiff_t n_rows, const double *shared,
                  const int32_t *path, const double *prior, double *levels,
                  double *weights, double *work, ptrdiff_t max_iter, double tol);

/* Rows of the levels, averaged over the paths with their shares. */
void skbnp_mix_paths(ptrdiff_t wide, ptrdiff_t n_levels, const double *logs,
                     ptrdiff_t n_paths, const int32_t *paths, const double *shares,
                     double *mixed);

/* sum_u x_u phi_ul logs for each node of the levels `node_level` (n_rows,), with phi as
   skbnp_walk left it in `work`, without shared weights. */
void skbnp_path_terms(ptrdiff_t wide, ptrdiff_t n_levels, const double *counts,
                      const double *logs, ptrdiff_t n_rows, const int32_t *node_level,
                      const double *weights, const double *work, double *terms);

/* Put x_u phi_ul to `tokens`, n_levels to a word. Returns
   sum_l lnG(alpha_l + sum_u x_u phi_ul) - sum_u x_u sum_l phi_ul log phi_ul. */
double skbnp_path_tokens(ptrdiff_t n, ptrdiff_t wide, ptrdiff_t n_levels,
                         const double *counts, const double *logs,
                         const int32_t *path, const double *prior,
                         const double *weights, double *tokens, double *work);

#endif
