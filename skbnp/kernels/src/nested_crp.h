/* The collapsed nested Chinese restaurant process: each document walks down one path of a
   tree of topics, and each of its tokens is drawn at one level of the path. */

#ifndef SKBNP_NESTED_CRP_H
#define SKBNP_NESTED_CRP_H

#include <stddef.h>
#include <stdint.h>

#include <numpy/random/bitgen.h>

typedef struct {
    /* Corpus: the tokens of document j are words[begin[j]] to words[begin[j + 1] - 1],
       equal words side by side. */
    ptrdiff_t n_docs, n_words, n_levels;
    const int64_t *begin;
    const int32_t *words;

    uint8_t *level; /* of each token */
    int32_t *path;  /* (n_docs, n_levels) nodes; -1: not seated yet */

    /* Nodes of a level are columns first[level] to first[level] + n_nodes[level] - 1; one
       without documents is free. A node is named by its column. */
    const int64_t *first; /* (n_levels + 1,) */
    int32_t *n_nodes;     /* (n_levels,) columns that have been taken */
    ptrdiff_t stride;     /* first[n_levels], or more */
    int32_t *counts;      /* (n_words, stride) tokens of a word at a node */
    int32_t *totals;      /* (stride,) */
    int32_t *docs;        /* (stride,) documents through a node */
    int32_t *parent;      /* (stride,) -1: the root, or free */
    int32_t *is_new;      /* (stride,) whether it was taken since this was set to 0 */

    double concentration;      /* gamma */
    const double *level_prior; /* (n_levels,) alpha */
    const double *topic_prior; /* (n_levels,) eta */
    const float *log_counts;   /* (n_levels, n_logs) log(n + eta) for small n */
    ptrdiff_t n_logs;

    /* Workspace. */
    double *score;                  /* (stride,) */
    double *weight;                 /* (2 * stride,) */
    int32_t *unique, *times, *from; /* (longest document,), (longest,), (levels + 1,) */
    int32_t *at_level;              /* (n_levels,) tokens of the document */
} NestedCRP;

/* Resample the path of a document and the levels of its tokens, for documents from `doc`
   up to `stop`. Returns the document before which a level had no free column, or `stop`. */
ptrdiff_t skbnp_nested_crp_sweep(NestedCRP *s, ptrdiff_t doc, ptrdiff_t stop,
                                 int with_paths, bitgen_t *rng);

#endif
