/* The Chinese restaurant franchise: tokens sit at tables of their document, tables serve
   dishes (topics) that documents share. */

#ifndef SKBNP_FRANCHISE_H
#define SKBNP_FRANCHISE_H

#include <stddef.h>
#include <stdint.h>

#include <numpy/random/bitgen.h>

typedef struct {
    /* Corpus: the tokens of document j are words[begin[j]] to words[begin[j + 1] - 1],
       equal words side by side. */
    ptrdiff_t n_docs, n_words;
    const int64_t *begin;
    const int32_t *words;

    /* Seating. Table t of document j is entry begin[j] + t of `size` and `dish`. */
    int32_t *table;    /* of each token; -1: not seated yet */
    int32_t *size;     /* tokens of each table */
    int32_t *dish;     /* of each table */
    int32_t *n_tables; /* (n_docs,) */

    /* Counts n_kw > 0 of word w: n_entries[w] entries from room[w] on. */
    const int64_t *room; /* (n_words + 1,) */
    int32_t *n_entries;  /* (n_words,) */
    int32_t *entry_dish, *entry_count;

    /* Dishes by place. A place without tables is free; none from `n_served` on has ever
       been taken. */
    ptrdiff_t n_places, n_served, n_free;
    int32_t *dish_tokens; /* n_k */
    int32_t *dish_tables; /* m_k */
    float *inverse;       /* 1 / (n_k + V eta); 0: free */
    float *rate;          /* m_k / (n_k + V eta) */
    int32_t *is_new;      /* whether the place was taken since this was set to 0 */
    int32_t *free_places; /* those free below `n_served`, a stack */
    int64_t n_all_tables;
    double rate_sum;

    double corpus_concentration, doc_concentration, eta;

    /* Workspace by place; zero, one in `ratio`, between calls. */
    int32_t *doc_tokens, *doc_tables; /* n_jk, m_jk */
    int32_t *doc_table;               /* one of these tables */
    int32_t *is_listed;               /* in `doc_dishes` */
    float *doc_rate;                  /* n_jk / (n_k + V eta) */
    double *ratio;
    /* Workspace of any content; as many as places, and as tokens of a document. */
    int32_t *doc_dishes, *touched;
    float *masses;
    double *weights;
    int32_t *empty, *order, *start, *distinct, *times, *part, *part_times;
} Franchise;

/* Resample the tables of tokens and, unless `meal_part` is 0, the dishes of tables of
   two tokens and more, for documents from `doc` up to `stop`. Where a table is longer,
   `meal_part` of its tokens propose a dish. Returns the document at which there were too
   few places left, or `stop`. */
ptrdiff_t skbnp_franchise_sweep(Franchise *f, ptrdiff_t doc, ptrdiff_t stop,
                                int meal_part, bitgen_t *rng);

/* Add what tokens at tables count for: entries of words, tokens and tables of dishes. */
void skbnp_franchise_count(Franchise *f);

/* Give dishes the places `renamed` says, and sort entries of words by count. */
void skbnp_franchise_tidy(Franchise *f, const int32_t *renamed);

/* Compute the rates of all dishes. */
void skbnp_franchise_rate(Franchise *f);

/* List the words of each document by table; table t begins at entry `first` of its place
   among the tables of the document, and has `size` words. */
void skbnp_franchise_group(const Franchise *f, int32_t *words, int32_t *first);

/* What a proposal to split a dish or to merge two works with. */
typedef struct {
    const int32_t *words, *begin; /* as `skbnp_franchise_group` says */
    const int32_t *doc, *table;   /* (n_all_tables,) of all tables, dish by dish */
    const int64_t *first;       /* (n_served + 1,) limits of the dishes */
    int32_t *queue;             /* (n_all_tables,) */
    int8_t *choice;             /* (n_all_tables,) */
    int32_t *one, *other;       /* (n_words,) counts; zero between calls */
} Proposal;

enum { SKBNP_REJECTED = 0, SKBNP_SPLIT = 1, SKBNP_MERGED = 2 };

/* Propose to split or to merge the dishes of two random tables; puts the dish that stays
   and the other. There must be a free place. */
int skbnp_franchise_propose(Franchise *f, const Proposal *proposal, bitgen_t *rng,
                            int32_t *stays, int32_t *comes);

#endif
