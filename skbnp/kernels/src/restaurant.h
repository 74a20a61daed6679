/* Expected tables of a word in the Pitman-Yor restaurant of a document, by a grid. */

#ifndef SKBNP_RESTAURANT_H
#define SKBNP_RESTAURANT_H

#include <math.h>

#include "special.h"

/* Rows: 0 to GRID_EXACT tokens, then GRID_PER_OCTAVE for each doubling. Columns: log m
   from GRID_FIRST in steps of 1 / GRID_PER_UNIT. */
#define GRID_EXACT 64
#define GRID_PER_OCTAVE 8
#define GRID_FIRST (-18.0f)
#define GRID_PER_UNIT 8.0f
#define GRID_COLUMNS 289

struct skbnp_restaurant {
    const float *expected; /* (n_rows, GRID_COLUMNS) */
    ptrdiff_t n_rows;
    float discount, concentration;
};

/* E[t | n, m] at a row, linear between columns. */
SKBNP_INLINE float tables_at(const float *row, ptrdiff_t column, float part)
{
    return row[column] + part * (row[column + 1] - row[column]);
}

/* E[t | n, m] of n tokens, 0 < n, and m > 0 the mass of a new table; of a part of a token
   that part. Linear between rows; above the last as from the row before to the last. */
SKBNP_INLINE float expected_tables(const struct skbnp_restaurant *r, float n, float mass)
{
    const float most = GRID_COLUMNS - 1.001f;
    float x, place, part, tables, above = 0.0f;
    ptrdiff_t column, row, top = r->n_rows - 1;
    if (n <= 1.0f)
        return n;
    mass = mass > 1e-30f ? mass : 1e-30f;
    x = (fast_logf(mass) - GRID_FIRST) * GRID_PER_UNIT;
    x = x > 0.0f ? x : 0.0f;
    x = x < most ? x : most;
    column = (ptrdiff_t)x;
    x -= (float)column;
    place = n;
    if (n > GRID_EXACT)
        place = GRID_EXACT + GRID_PER_OCTAVE * log2f(n / GRID_EXACT);
    if (place >= (float)top) {
        above = place - (float)top;
        place = (float)top;
    }
    row = (ptrdiff_t)place;
    part = place - (float)row;
    tables = tables_at(r->expected + row * GRID_COLUMNS, column, x);
    if (part > 0.0f) {
        const float *next = r->expected + (row + 1) * GRID_COLUMNS;
        tables += part * (tables_at(next, column, x) - tables);
    }
    if (above > 0.0f) {
        const float *before = r->expected + (top - 1) * GRID_COLUMNS;
        tables *= exp2f(above * log2f(tables / tables_at(before, column, x)));
    }
    return tables < n ? tables : n;
}

#endif
