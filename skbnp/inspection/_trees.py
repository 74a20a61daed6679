"""Figure of a tree of topics."""

from dataclasses import dataclass
from numbers import Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skbnp.inspection._displays import BLUE, FONT, GREY, Display
from skbnp.inspection._terms import top_terms
from skbnp.trees.tree import depths
from skbnp.trees.view import TreeView, chains_of, named
from skbnp.utils import fitted as read
from skbnp.utils.typing import Array
from skbnp.utils.validation import POSITIVE, at_least, validated

#: Inches that a figure of ours does not exceed, where that can be.
PAGE = (10.0, 8.0)
#: In sizes of the type: a line, between texts of a level, from node to text, from text
#: to the next level, the widest and the least node, height and width of the key.
LEADING, APART, PAD, GAP = 1.25, 0.6, 0.35, 3.2
DISC, DOT, KEY, KEY_WIDTH = 1.7, 0.3, 2.5, 22.0
#: How often type is made smaller until it fits given axes.
SHRINKS = 4


@dataclass(kw_only=True, eq=False, repr=False)
class TopicTreeDisplay(Display):
    """Figure of a tree of topics: terms and weight of each node.

    Best made with :meth:`from_estimator`. The root is on the left. The area of a node
    is its weight, dots of the least size apart; beside it stand its number and its
    terms, most probable first. "(7 more)" counts nodes below that are left out. A
    node and its only child are one: their numbers and terms stand side by side. Nodes
    without tokens are not drawn; above others they stand without terms.

    Parameters
    ----------
    tree : TreeView
        The tree, as `tree_` of an estimator.
    terms : list of list of str
        Terms of each node.
    names : list of str or None, default=None
        Names of the nodes, in the place of their numbers.

    Attributes
    ----------
    nodes_ : ndarray of int of shape (n_drawn,)
        Rows of the nodes drawn.
    texts_ : list of matplotlib Annotation
        What stands beside each of them.
    ax_, figure_ : matplotlib Axes, matplotlib Figure
        Where it is drawn.

    See Also
    --------
    top_terms : The terms as lists, which `tree_.to_text` takes too.
    TopicTermsDisplay : Topics without their tree.

    Notes
    -----
    The layout is that of Reingold and Tilford (1981), as in
    :func:`sklearn.tree.plot_tree`, on its side.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> from skbnp.inspection import TopicTreeDisplay
    >>> from skbnp.trees import TreeView
    >>> tree = TreeView([-1, 0, 0], [1.0, 0.75, 0.25])
    >>> terms = [["the", "of"], ["sun", "sea"], ["oil", "gas"]]
    >>> display = TopicTreeDisplay(tree=tree, terms=terms).plot()
    >>> [text.get_text() for text in display.texts_]
    ['0: the, of', '1: sun, sea', '2: oil, gas']
    >>> plt.show()
    """

    tree: TreeView
    terms: list[list[str]]
    names: list[str | None] | None = None

    @classmethod
    @validated()
    def from_estimator(
        cls, estimator, feature_names=None, *, n_terms=5, ax=None, **kwargs
    ) -> Self:
        """Draw the tree of a fitted model.

        Parameters
        ----------
        estimator : fitted topic model or Pipeline that ends in one
            Anything with `tree_` and `components_`.
        feature_names : array-like of str of shape (n_features,), default=None
            As in :func:`top_terms`.
        n_terms : int, default=5
            Terms of each node.
        ax : matplotlib Axes, default=None
            Axes to draw in; type shrinks where they are too small for it. `None` makes
            a figure of fitting size.
        **kwargs : dict
            Handed to :meth:`plot`.

        Returns
        -------
        display : TopicTreeDisplay
            The drawn display.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        """
        tree = read.fitted(estimator, "tree_")
        terms = top_terms(estimator, feature_names, n_terms)
        names = read.topic_names(estimator, len(terms))
        return cls(tree=tree, terms=terms, names=names).plot(ax, **kwargs)

    @validated(
        min_weight=[at_least(0, Real)],
        max_depth=[at_least(0), None],
        max_leaves=[POSITIVE, None],
    )
    def plot(
        self,
        ax=None,
        *,
        min_weight=0.0,
        max_depth=None,
        max_leaves=50,
        fold_chains=True,
    ) -> Self:
        """Draw the tree.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            As in :meth:`from_estimator`.
        min_weight : float, default=0.0
            Least weight of a node that is drawn; nodes above it are too.
        max_depth : int, default=None
            Largest depth of a node that is drawn, 0 at the root. `None` has no limit.
        max_leaves : int, default=50
            Ends of branches that are drawn; lighter nodes are left out until there are
            so few. `None` has no limit.
        fold_chains : bool, default=True
            Whether a node and its only child are drawn as one.

        Returns
        -------
        display : TopicTreeDisplay
            This object.

        Raises
        ------
        ValueError
            If the tree is drawn deeper than 200 levels.
        """
        is_made = ax is None
        self._begin(ax)
        nodes, hidden = self.tree.select(min_weight, max_depth, max_leaves)
        used = zip(self.terms, self.tree.in_use, strict=True)
        terms = [words if is_used else [] for words, is_used in used]
        parent = np.searchsorted(nodes, self.tree.parent[nodes])
        chains, parent = chains_of(parent, (hidden == 0) & fold_chains)
        n_hidden = [int(hidden[chain].sum()) for chain in chains]
        rows = [nodes[chain].tolist() for chain in chains]
        self.nodes_ = np.array([row[0] for row in rows])
        depth = depths(np.append(-1, parent[1:]))
        if depth.max() > DEEPEST:
            raise ValueError(f"max_depth must be at most {DEEPEST} to draw this tree.")
        height = tidy(parent)

        numbers = self.tree.numbers.tolist()
        given = self.names or [None] * self.tree.n_nodes
        pairs = zip(given, numbers, strict=True)
        called = [self._topic_label(name, number) for name, number in pairs]

        def planned(n_lines, size=FONT):
            """Return the layout with terms in `n_lines` lines."""
            texts = [
                _text_of(chain, called, terms, n_lines) + (f" ({n} more)" if n else "")
                for chain, n in zip(rows, n_hidden, strict=True)
            ]
            width = np.array(self._widths(texts, size))
            return Plan.of(texts, n_lines, width, depth, height, size)

        if is_made:
            plan = self._choose(planned, 72 * np.array(PAGE))
            self._resize(plan.extent / 72)
        else:
            plan = self._choose(planned, self._room())
            for _ in range(SHRINKS):  # small type is wider than it should be
                if (plan.extent <= self._extent).all():
                    break
                size = plan.size * min(self._extent / plan.extent)
                plan = planned(plan.n_lines, size)
        self._draw(plan, parent, depth)
        return self

    def _choose(self, planned, room):
        """Break terms into the fewest lines that fit the room, or fit it best."""
        most = max(map(len, self.terms))
        plans = [planned(n_lines) for n_lines in range(1, most + 1)]
        return min(plans, key=lambda plan: max(1.0, *(plan.extent / room)))

    def _draw(self, plan, parent, depth):
        """Draw nodes, edges and texts by the layout."""
        from matplotlib.collections import PathCollection
        from matplotlib.path import Path

        ax, size = self.ax_, plan.size
        ax.set_axis_off()
        ax.set_xlim(0.0, plan.extent[0])
        ax.set_ylim(plan.extent[1], 0.0)  # the first child on top
        at = np.column_stack([plan.left[depth] + DISC * size / 2, plan.y])
        # From the end of a text along its level, then to the children.
        stem, bend = [Path.MOVETO, Path.LINETO], [Path.MOVETO, *3 * [Path.CURVE4]]
        paths = []
        for i in np.unique(parent[1:]):
            (x, y), end = at[i], plan.right[depth[i]]
            paths.append(Path([(x + plan.width[i], y), (end, y)], stem))
            for to_x, to_y in at[1:][parent[1:] == i]:
                half = (end + to_x) / 2
                points = [(end, y), (half, y), (half, to_y), (to_x, to_y)]
                paths.append(Path(points, bend))
        lines: dict[str, Any] = {"facecolor": "none", "edgecolor": "0.75", "zorder": 1}
        lines |= {"lw": size / FONT, "snap": False}
        ax.add_collection(PathCollection(paths, **lines))
        weight = self.tree.weight[self.nodes_]
        top = weight.max() if weight.max() > 0.0 else 1.0

        def area(weight):  # of a disc's box
            return np.maximum(DISC**2 * weight / top, DOT**2) * size**2

        discs: dict[str, Any] = {"color": BLUE, "lw": 0, "zorder": 2, "clip_on": False}
        ax.scatter(at[:, 0], at[:, 1], s=area(weight), **discs)
        shift = (DISC / 2 + PAD) * size
        self.texts_ = [
            self._label(text, place, (shift, 0.0), size, 0.1, linespacing=LEADING)
            for text, place in zip(plan.texts, at, strict=True)
        ]
        self._draw_key(top, area, size)

    def _draw_key(self, top, area, size):
        """Draw the legend of areas and weights."""
        steps = 10.0 ** np.floor(np.log10(top)) * np.array([1.0, 0.1, 0.01])
        disc: dict[str, Any] = {"ls": "", "marker": "o", "mew": 0, "color": BLUE}
        handles = [
            self._mark(
                f"{100 * weight:.3g} %", markersize=np.sqrt(area(weight)), **disc
            )
            for weight in steps
        ]
        handles[0].set_label(f"weight {handles[0].get_label()}")
        style: dict[str, Any] = {"borderaxespad": 0.0, "borderpad": 0.0}
        style |= {"handletextpad": 0.3, "columnspacing": 1.0, "fontsize": size}
        style |= {"ncols": len(handles), "labelcolor": GREY}
        self._legend(handles, loc="upper left", bbox_to_anchor=(0.0, 1.0), **style)


@dataclass(frozen=True)
class Plan:
    """Positions and sizes of all elements of the figure, in points."""

    texts: list[str]  # (n_drawn,)
    n_lines: int
    width: Array  # (n_drawn,) from the middle of a node to its text's end
    left: Array  # (n_levels,) where the widest nodes begin
    right: Array  # (n_levels,) where the longest texts end
    y: Array  # (n_drawn,) downwards
    extent: Array  # width and height
    size: float  # of the type

    @classmethod
    def of(cls, texts, n_lines, width, depth, height, size):
        """Give each level the room of its longest text."""
        width = width + (DISC / 2 + PAD) * size
        room = np.zeros(depth.max() + 1)
        np.maximum.at(room, depth, width + DISC * size / 2)
        right = np.cumsum(room + GAP * size) - GAP * size
        pitch = max(n_lines * LEADING + APART, DISC) * size
        y = KEY * size + (height + 0.5) * pitch
        extent = np.array([max(right[-1], KEY_WIDTH * size), y.max() + pitch / 2])
        return cls(texts, n_lines, width, right - room, right, y, extent, size)


def in_lines(terms, n_lines):
    """Join terms in at most `n_lines` lines."""
    each = max(-(-len(terms) // n_lines), 1)
    lines = [terms[first : first + each] for first in range(0, len(terms), each)]
    return ",\n".join(", ".join(line) for line in lines)


def _text_of(chain, called, terms, n_lines):
    """Return numbers and terms of a node, and of those folded into it."""
    chain = named([i for i in chain if terms[i]] or chain[:1])
    each = [-(-len(terms[i]) // len(chain)) for i in chain]
    lines = max(n_lines // len(chain), 1)
    parts = [
        f"{called[i]}: {in_lines(terms[i][: max(n, 2)], lines)}"
        for i, n in zip(chain, each, strict=True)
    ]
    return (" \u203a\n" if n_lines > 1 else " \u203a ").join(parts)


#: Levels of a tree that is drawn: more would be illegible.
DEEPEST = 200


def tidy(parent: ArrayLike) -> Array:
    """Place the nodes of each level of a tree, as Reingold and Tilford (1981).

    `parent` is the row of each node's parent, an earlier row; siblings are in order. A
    node is at the middle of its children, at least 1 from its neighbours in the level,
    the first of all at 0. Each subtree is placed once, as near to those before it as
    the outlines allow; time is proportional to nodes times levels.
    """
    above = np.asarray(parent)
    n = len(above)
    shift = np.zeros(n)  # of each node, against its parent
    children: list[list[int]] = [[] for _ in range(n)]
    for node in range(1, n):
        children[above[node]].append(node)
    # First and last place of each level of a subtree, against its root.
    outlines: dict[int, tuple[NDArray, NDArray]] = {}
    for node in range(n - 1, -1, -1):
        low = high = np.zeros(0)
        for child in children[node]:
            left, right = outlines.pop(child)
            shared = min(len(high), len(left))
            gap = np.max(high[:shared] - left[:shared] + 1.0, initial=-np.inf)
            shift[child] = gap if shared else 0.0
            left, right = left + shift[child], right + shift[child]
            low = np.append(low, left[len(low) :])
            high = np.append(right, high[len(right) :])
        if children[node]:
            middle = (shift[children[node][0]] + shift[children[node][-1]]) / 2
            shift[children[node]] -= middle
            low, high = low - middle, high - middle
        outlines[node] = np.append(0.0, low), np.append(0.0, high)
    place = np.zeros(n)
    for node in range(1, n):
        place[node] = place[above[node]] + shift[node]
    return place - place.min()
