"""The fitted tree as users read it."""

from bisect import bisect_left
from collections.abc import Sequence
from operator import index
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from skbnp.trees.tree import depths, read_only
from skbnp.utils.lazy import import_optional
from skbnp.utils.typing import Flags, Ints

if TYPE_CHECKING:
    from networkx import DiGraph
    from pandas import DataFrame

#: Nodes of a chain that are named.
LONGEST = 3

Labels = Sequence[str] | Sequence[Sequence[str]]


class TreeView:
    """A fitted tree, to be read: arrays cannot be written to.

    Node i is row i of the arrays and of the model's `components_`. Row 0 is the root,
    parents stand before their children, siblings in the order of the model.

    Parameters
    ----------
    parent : array-like of int of shape (n_nodes,)
        Row of each node's parent, -1 at the root.
    weight : array-like of float of shape (n_nodes,)
        How much goes through or to each node: see the model.
    ids : array-like of int of shape (n_nodes,), default=None
        Names of the nodes, which keep them when rows move. `None` is the rows.
    in_use : array-like of bool of shape (n_nodes,), default=None
        Whether a node has a topic of its own, of some tokens; the root always counts.
        The others are left out of texts and figures; where nodes in use stand below,
        they stay, without terms. `None` is all.
    by_id : bool, default=False
        Whether texts and figures call nodes by their ids, as those of a tree over
        epochs, where rows differ from epoch to epoch; else by their rows.

    Attributes
    ----------
    parent, weight, ids, in_use, by_id : ndarray of shape (n_nodes,), and bool
        As given.
    numbers : ndarray of int of shape (n_nodes,)
        What texts and figures call the nodes.
    depth : ndarray of int of shape (n_nodes,)
        Edges between the root and each node.
    leaves : ndarray of int of shape (n_leaves,)
        Rows of the nodes without children.
    n_nodes, max_depth : int
        Number of nodes, and depth of the deepest.

    Examples
    --------
    >>> from skbnp.trees import TreeView
    >>> tree = TreeView([-1, 0, 1, 0], [1.0, 0.625, 0.5, 0.25])
    >>> tree
    TreeView(n_nodes=4, n_leaves=2, max_depth=2)
    >>> tree.path(2)
    array([0, 1, 2])
    >>> print(tree.to_text(["the, of", "sun, sea", "sand, sun", "oil, gas"]))
    0 (100.0 %) the, of
    |--- 1 > 2 (62.5 %) sun, sea > sand, sun
    |--- 3 (25.0 %) oil, gas
    """

    def __init__(
        self,
        parent: ArrayLike,
        weight: ArrayLike,
        ids: ArrayLike | None = None,
        in_use: ArrayLike | None = None,
        by_id: bool = False,
    ) -> None:
        self.parent = read_only(parent)
        self.weight = np.array(weight, dtype=np.float64)
        self.weight.setflags(write=False)
        n = len(self.parent)
        self.ids = read_only(np.arange(n) if ids is None else ids)
        self.in_use = np.array(np.ones(n) if in_use is None else in_use, dtype=bool)
        self.in_use[:1] = True
        self.in_use.setflags(write=False)
        self.by_id = bool(by_id)
        arrays = (self.parent, self.weight, self.ids, self.in_use)
        if n == 0 or {array.shape for array in arrays} != {(n,)}:
            raise ValueError(
                "parent, weight, ids and in_use must have a value for each node."
            )
        above = self.parent[1:]
        if self.parent[0] != -1 or not ((0 <= above) & (above < np.arange(1, n))).all():
            raise ValueError(
                "parent must be -1 at row 0, the root, and elsewhere a row before."
            )
        self.depth = read_only(depths(self.parent))
        is_leaf = np.bincount(above, minlength=n) == 0
        self.leaves = read_only(np.flatnonzero(is_leaf))

    @property
    def numbers(self) -> Ints:
        """Numbers of the nodes in texts and figures, (n_nodes,): ids, or rows."""
        return self.ids if self.by_id else np.arange(self.n_nodes)

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return len(self.parent)

    @property
    def max_depth(self) -> int:
        """Depth of the deepest node."""
        return int(self.depth.max())

    def children(self, node: int) -> Ints:
        """List the children of a node.

        Parameters
        ----------
        node : int
            Row of the node.

        Returns
        -------
        children : ndarray of int
            Their rows, in order.
        """
        return np.flatnonzero(self.parent == self._row(node))

    def path(self, node: int) -> Ints:
        """List the nodes from the root to a node, both included.

        Parameters
        ----------
        node : int
            Row of the node.

        Returns
        -------
        path : ndarray of int of shape (depth + 1,)
            Their rows.
        """
        path = np.empty(self.depth[self._row(node)] + 1, dtype=np.intp)
        for depth in range(len(path) - 1, -1, -1):
            path[depth], node = node, int(self.parent[node])
        return path

    def select(
        self,
        min_weight: float = 0.0,
        max_depth: int | None = None,
        max_leaves: int | None = None,
    ) -> tuple[Ints, Ints]:
        """Choose nodes in use to show, and all nodes above them.

        Parameters
        ----------
        min_weight : float, default=0.0
            Least weight of a node.
        max_depth : int, default=None
            Largest depth; `None` has no limit.
        max_leaves : int, default=None
            Largest number of leaves: the lightest nodes are left out until no more
            remain. `None` has no limit.

        Returns
        -------
        nodes : ndarray of int of shape (n_chosen,)
            Rows of the chosen nodes, in order; the root is always one.
        n_hidden : ndarray of int of shape (n_chosen,)
            For each, the number of hidden nodes whose nearest chosen ancestor it is.
        """
        weights = np.unique(self.weight[self.weight > min_weight])
        least = [min_weight, *np.nextafter(weights, np.inf).tolist()]

        def are_few(place):
            nodes, _ = self._heavier(least[place], max_depth)
            return (~np.isin(nodes, self.parent[nodes])).sum() <= max_leaves

        n = 0 if max_leaves is None else len(weights)
        place = bisect_left(range(n), True, key=are_few)
        return self._heavier(least[place], max_depth)

    def _heavier(self, min_weight: float, max_depth: int | None) -> tuple[Ints, Ints]:
        """Nodes of a least weight and largest depth, and their ancestors."""
        chosen = self.in_use & (self.weight >= min_weight)
        if max_depth is not None:
            chosen &= self.depth <= max_depth
        chosen[0] = True
        hidden = np.zeros(self.n_nodes, dtype=np.intp)
        for i in range(self.n_nodes - 1, 0, -1):
            if chosen[i]:
                chosen[self.parent[i]] = True
            else:
                hidden[self.parent[i]] += int(self.in_use[i]) + hidden[i]
        return np.flatnonzero(chosen), hidden[chosen]

    def to_text(
        self,
        labels: Labels | None = None,
        *,
        min_weight: float = 0.0,
        max_depth: int | None = None,
        max_leaves: int | None = 50,
        fold_chains: bool = True,
        decimals: int = 1,
    ) -> str:
        """Write the tree, a line for each node.

        Parameters
        ----------
        labels : sequence of str or of lists of str, default=None
            What to write at each node, for example what
            :func:`skbnp.inspection.top_terms` returns.
        min_weight, max_depth, max_leaves : float, int, int, default=0.0, None, 50
            As in :meth:`select`.
        fold_chains : bool, default=True
            Whether a node and its only child share a line.
        decimals : int, default=1
            Digits after the point of weights, which are in per cent.

        Returns
        -------
        text : str
            Number, weight and label of each node, indented by depth; dots stand for
            nodes that are left out.
        """
        texts = self._labels(labels)
        nodes, hidden = self.select(min_weight, max_depth, max_leaves)
        parent = np.searchsorted(nodes, self.parent[nodes])
        chains, above = chains_of(parent, (hidden == 0) & fold_chains)
        below: list[list[int]] = [[] for _ in chains]
        for i in range(len(chains) - 1, 0, -1):
            below[above[i]].append(i)  # the last child comes first
        lines: list[str] = []
        stack: list[tuple[int | str, int]] = [(0, 0)]
        while stack:
            item, depth = stack.pop()
            start = "|   " * (depth - 1) + ("|--- " if depth else "")
            if isinstance(item, str):
                lines.append(f"{start}{item}")
                continue
            rows = nodes[chains[item]].tolist()
            weight = f"({100 * self.weight[rows[0]]:.{decimals}f} %)"
            rows = named([i for i in rows if self.in_use[i]] or rows[:1])
            names = " > ".join(map(str, self.numbers[rows].tolist()))
            called = [texts[i] for i in rows if texts[i] and self.in_use[i]]
            lines.append(f"{start}{names} {weight} {' > '.join(called)}".rstrip())
            if n := int(hidden[chains[item]].sum()):
                stack.append((f"... {n} more", depth + 1))
            stack.extend((child, depth + 1) for child in below[item])
        return "\n".join(lines)

    def to_dict(self, labels: Labels | None = None) -> dict:
        """Nest the nodes in each other, as JSON libraries of trees want them.

        Parameters
        ----------
        labels : sequence of str or of lists of str, default=None
            Names of the nodes.

        Returns
        -------
        root : dict
            `node`, `id`, `weight`, with `labels` also `label`, and `children`, a list
            of such dicts.
        """
        nodes = [record | {"children": []} for record in self._records(labels)]
        for i in range(1, self.n_nodes):
            nodes[self.parent[i]]["children"].append(nodes[i])
        return nodes[0]

    def to_frame(self, labels: Labels | None = None) -> "DataFrame":
        """Return a table of the nodes.

        Parameters
        ----------
        labels : sequence of str or of lists of str, default=None
            Names of the nodes.

        Returns
        -------
        frame : pandas DataFrame
            A row for each node: `id`, `parent`, `depth`, `weight`, and with `labels`
            also `label`.

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        pd = _imported("pandas", "to_frame")
        frame = pd.DataFrame(
            {
                "id": self.ids,
                "parent": self.parent,
                "depth": self.depth,
                "weight": self.weight,
            },
            index=pd.RangeIndex(self.n_nodes, name="node"),
        )
        return frame if labels is None else frame.assign(label=self._labels(labels))

    def to_networkx(self, labels: Labels | None = None) -> "DiGraph":
        """Return the tree as a graph.

        Parameters
        ----------
        labels : sequence of str or of lists of str, default=None
            Names of the nodes.

        Returns
        -------
        graph : networkx DiGraph
            Nodes are rows, with attributes `id`, `weight`, and with `labels` also
            `label`; edges run from parents to children, siblings in order.

        Raises
        ------
        ImportError
            If networkx is not installed.
        """
        graph = _imported("networkx", "to_networkx").DiGraph()
        for record in self._records(labels):
            graph.add_node(record.pop("node"), **record)
        graph.add_edges_from((int(p), i) for i, p in enumerate(self.parent) if i > 0)
        return graph

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TreeView):
            return NotImplemented
        return all(
            np.array_equal(getattr(self, name), getattr(other, name))
            for name in ("parent", "weight", "ids", "in_use", "by_id")
        )

    def __repr__(self) -> str:
        shape = f"n_nodes={self.n_nodes}, n_leaves={len(self.leaves)}"
        return f"TreeView({shape}, max_depth={self.max_depth})"

    def __str__(self) -> str:
        return self.to_text()

    def __reduce__(self) -> tuple[object, ...]:
        return TreeView, (self.parent, self.weight, self.ids, self.in_use, self.by_id)

    def _row(self, node: int) -> int:
        """Check the row of a node."""
        if not 0 <= index(node) < self.n_nodes:
            raise IndexError(f"node must be in [0, {self.n_nodes}), got {node}.")
        return index(node)

    def _labels(self, labels: Labels | None) -> list[str]:
        """One text per node."""
        if labels is None:
            return [""] * self.n_nodes
        if isinstance(labels, str) or len(labels) != self.n_nodes:
            raise ValueError(
                f"labels must have one text for each of {self.n_nodes} nodes, "
                f"got {len(labels)}."
            )
        return [
            str(label) if isinstance(label, str) else ", ".join(label)
            for label in labels
        ]

    def _records(self, labels: Labels | None) -> list[dict]:
        """Describe every node by plain Python values."""
        texts = self._labels(labels)
        return [
            {"node": i, "id": int(self.ids[i]), "weight": float(self.weight[i])}
            | ({} if labels is None else {"label": texts[i]})
            for i in range(self.n_nodes)
        ]


def named(chain: list[int]) -> list[int]:
    """Choose the nodes of a chain to name: the first ones and the last."""
    return chain if len(chain) <= LONGEST else [*chain[: LONGEST - 1], chain[-1]]


def chains_of(parent: Ints, may_fold: Flags) -> tuple[list[list[int]], Ints]:
    """Fold only children into their parents: chains of nodes, and parents of chains.

    Parents come before children, the root first; `may_fold`, (n,), marks parents that
    may take their child in.
    """
    n_children = np.bincount(parent[1:], minlength=len(parent))
    chain_of, above = np.zeros(len(parent), dtype=int), []
    chains: list[list[int]] = []
    for node, up in enumerate(parent.tolist()):
        if node > 0 and n_children[up] == 1 and may_fold[up]:
            chain_of[node] = chain_of[up]
            chains[chain_of[up]].append(node)
            continue
        chain_of[node] = len(chains)
        above.append(chain_of[up] if node > 0 else 0)
        chains.append([node])
    return chains, np.array(above)


def _imported(library: str, method: str) -> Any:
    return import_optional(library, f"`{method}` needs {library}", '"skbnp[export]"')
