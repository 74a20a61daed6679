"""The order of the gallery: examples not named here follow, by name."""

from pathlib import Path

READ_FIRST = [
    "plot_quickstart.py",
    "plot_number_of_topics.py",
    "plot_topic_groups.py",
    "plot_words_of_topics.py",
    "plot_seed_words.py",
    "plot_topic_shares.py",
    "plot_classes.py",
    "plot_topic_traces.py",
    "plot_stream.py",
    "plot_nightly_stream.py",
    "plot_lineage.py",
    "plot_grid_search.py",
    "plot_saving.py",
    "plot_mutation_counts.py",
]


def place_of(filename):
    """Sort by the place above, then by the name."""
    name = Path(filename).name
    place = READ_FIRST.index(name) if name in READ_FIRST else len(READ_FIRST)
    return f"{place:02d}{name}"
