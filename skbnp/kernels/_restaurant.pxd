"""Expected tables of words in the restaurant of a document, see src/restaurant.h."""

cdef extern from "src/restaurant.h" nogil:
    cdef struct Restaurant "skbnp_restaurant":
        const float* expected
        Py_ssize_t n_rows
        float discount, concentration
    float expected_tables(const Restaurant* r, float n, float mass)
    enum:
        GRID_EXACT
        GRID_PER_OCTAVE
        GRID_COLUMNS
    float GRID_FIRST
    float GRID_PER_UNIT
