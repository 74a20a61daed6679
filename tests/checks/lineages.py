"""What a log of edits says of the ids that are alive."""


def replay(lineage):
    """Replay a log; return the ids that are alive in the end.

    Raise where a record uses an id that is not alive then: parents are alive before it,
    children after it. An id begins once; one that has ended comes back by a "revive".
    """
    assert len(lineage) > 0
    first, *rest = lineage
    assert (first.kind, first.parents) == ("init", ()), first
    alive, ever, step = set(first.children), set(first.children), first.step
    for record in rest:
        parents, children = set(record.parents), set(record.children)
        assert record.kind != "init", record
        assert record.step >= step, record
        assert parents <= alive, record
        known = (children & ever) - alive
        assert bool(known) == (record.kind == "revive"), record
        alive, ever, step = (alive - parents) | children, ever | children, record.step
    return alive


def check_lineage(estimator):
    """Raise unless the log leads to the components, after each epoch where it has them.

    The log up to its last record of an epoch leads to the nodes of this epoch.
    """
    assert replay(estimator.lineage_) == set(estimator.component_ids_.tolist())
    for record in getattr(estimator, "epochs_", {}).values():
        alive = replay(estimator.lineage_[: record.n_records])
        assert alive == set(record.component_ids.tolist()), record
