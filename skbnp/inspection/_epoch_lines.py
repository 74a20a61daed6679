"""Topics over epochs reduced to a few lines: small topics join their ancestors."""

from typing import Any

import numpy as np

from skbnp.inspection._over_time import parent_ids, terms_of
from skbnp.trees import Tree
from skbnp.utils.ordering import largest


class EpochLines:
    """Lines of a figure of epochs, with their shares of rows and their terms."""

    epochs: dict[Any, Any]
    terms: dict[int, list[list[str]]]
    columns: Any

    def _shares(self):
        """Share of rows at each topic by epoch; nan where it is not in the tree."""
        ids = sorted(self.terms)
        result = {node: [np.nan] * len(self.epochs) for node in ids}
        for place, record in enumerate(self.epochs.values()):
            total = max(float(record.masses.sum()), 1e-300)
            names = record.component_ids.tolist()
            for node, mass in zip(names, record.masses.tolist(), strict=True):
                result[node][place] = mass / total
        return {node: np.array(row) for node, row in result.items()}

    def _lines(self):
        """Return one tree of all topics of all epochs, each at its last place."""
        parent: dict[int, int] = {}
        order: dict[int, None] = {}
        for record in reversed(self.epochs.values()):
            names, above = record.component_ids.tolist(), parent_ids(record).tolist()
            for node, up in zip(names, above, strict=True):
                parent.setdefault(node, up)
                order.setdefault(node)
        ids = list(order)
        for node in ids[1:]:  # a node that was the root once stands below the last one
            parent[node] = ids[0] if parent[node] < 0 else parent[node]
        place = {node: at for at, node in enumerate(ids)}
        parents = [place[parent[node]] if parent[node] >= 0 else -1 for node in ids]
        return Tree.from_parents(parents, ids)

    def _folded(self, n_lines, min_share):
        """Add small topics to their ancestors; return tree, shares, line of each."""
        tree, shares = self._lines(), self._shares()
        total = {node: np.nan_to_num(row) for node, row in shares.items()}
        there = {node: np.isfinite(row) for node, row in shares.items()}
        peaks = {node: float(row.max()) for node, row in total.items()}
        owner = {node: node for node in tree.ids.tolist()}
        while len(tree) > 1:
            node = min(tree.ids.tolist()[1:], key=lambda name: peaks[name])
            if len(tree) <= n_lines and peaks[node] >= min_share:
                break
            up = tree.parent_of(node)
            total[up], there[up] = total[up] + total[node], there[up] | there[node]
            peaks[up] = float(total[up].max())
            owner = {name: up if at == node else at for name, at in owner.items()}
            tree = tree.merge(node, up)
        rows = [np.where(there[n], total[n], np.nan) for n in tree.ids.tolist()]
        return tree, rows, owner

    def _terms_of_lines(self, tree, shares, owner):
        """Terms by which each line differs from its parent and siblings."""
        nodes, records = tree.ids.tolist(), list(self.epochs.values())
        peaks, result = [int(np.nanargmax(row)) for row in shares], []
        for node, at in zip(nodes, peaks, strict=True):
            record = records[at]
            names = record.component_ids.tolist()
            if self.columns is None:
                there = np.flatnonzero([node in r.component_ids for r in records])
                place = min(int(np.searchsorted(there, at)), len(there) - 1)
                result.append(self.terms[node][place])
                continue
            up = tree.parent_of(node)
            siblings = tree.children_of(node if up is None else up).tolist()
            around = [up] * (up is not None) + [n for n in siblings if n != node]
            lines = np.array([owner[name] for name in names])
            own = _mean_direction(record, lines == node)
            rest = [_mean_direction(record, lines == other) for other in around]
            excess = own - (np.mean(rest, axis=0) if rest else 0.0)
            n_terms = max(map(len, self.terms[node]), default=1)
            result.append(_leading(excess, own, self.columns, n_terms))
        return result


def _mean_direction(record, rows):
    """Mean of the directions of some topics, weighted by their rows."""
    masses = record.masses * rows
    if not masses.sum() > 0.0:
        masses = rows.astype(np.float64)
    mean = np.asarray(masses @ record.components).ravel()
    return mean / max(np.linalg.norm(mean), 1e-300)


def _leading(excess, values, names, n_terms):
    """Terms of the largest excess, where it and the value are positive."""
    best = largest(excess, n_terms)
    return [str(names[j]) for j in best if excess[j] > 0.0 and values[j] > 0.0]


def contrasted_terms(record, names, n_terms):
    """Terms by which each topic differs most from its parent and its siblings.

    For the root, and topics without such terms, the terms of largest entries.
    """
    directions, parent = record.components, record.tree.parent
    result = terms_of(directions, names, n_terms)
    for up in np.unique(parent[parent >= 0]):
        children = np.flatnonzero(parent == up)
        values = directions[np.append(children, up)].toarray()
        total = values.sum(axis=0)
        for row, child in enumerate(children.tolist()):
            excess = values[row] - (total - values[row]) / len(children)
            result[child] = (
                _leading(excess, values[row], names, n_terms) or result[child]
            )
    return result
