"""What all figures by matplotlib have in common."""

from typing import TYPE_CHECKING, Any

import numpy as np

from skbnp.utils.lazy import import_optional

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Of Okabe and Ito: told apart by every kind of eye.
COLOURS = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"
BLUE, VERMILION = COLOURS[:2]
GREY = "#666666"
#: Inches around all, and across, where the figure is ours; points of letters.
MARGIN, MAX_WIDTH, FONT = 0.25, 10.0, 9.0
#: Letters of a name in a figure.
LONGEST_NAME = 18


def axes_of(ax, **style):
    """Return given axes, or those of a new figure, if there is matplotlib."""
    need = "Displays need matplotlib"
    plt = import_optional("matplotlib.pyplot", need, "skbnp[plot]")
    return plt.subplots(**style)[1] if ax is None else ax


def as_written(key):
    """Draw dollar signs of a legend as such, not as the ends of a formula."""
    for text in key.get_texts():
        text.set_parse_math(False)
    return key


def legend(ax, handles, loc, anchor, size, **style):
    """Draw a legend without a frame, one of its corners at a point of the axes."""
    style |= {"bbox_to_anchor": anchor, "fontsize": size, "frameon": False}
    return as_written(ax.legend(handles=handles, loc=loc, **style))


def mark(label, **style):
    """Return a line or a marker for a legend."""
    from matplotlib.lines import Line2D

    return Line2D([], [], label=label, **style)


def line_style(given, **defaults):
    """Replace the style of a line by what users give, by any of its names."""
    from matplotlib.cbook import normalize_kwargs
    from matplotlib.lines import Line2D

    return defaults | normalize_kwargs(given, Line2D)


def open_frame(ax, **labels):
    """Name the axes, and remove the frame above and on the right."""
    ax.set(**labels)
    ax.spines[["top", "right"]].set_visible(False)


def in_percent(axis):
    """Write shares in per cent."""
    axis.set_major_formatter(lambda share, _: f"{100 * share:g} %")


def shortened(text, most=LONGEST_NAME):
    """Shorten a text, as a name to the room of a title or a label."""
    return text if len(text) <= most else text[: most - 1] + "…"


class Display:
    """Axes that a figure is drawn in, their size in points, and texts in them."""

    ax_: "Axes"
    figure_: "Figure"

    def _begin(self, ax, **style) -> Any:
        """Take axes, or make a figure; return the axes."""
        self.ax_ = ax = axes_of(ax, **style)
        self.figure_ = ax.figure
        return ax

    @property
    def _extent(self) -> Any:
        """Width and height of the axes."""
        return np.array(self.ax_.get_window_extent().size) * 72 / self.figure_.dpi

    def _room(self):
        """Width and height of given axes, which a layout may move."""
        self.figure_.draw_without_rendering()
        return self._extent

    def _resize(self, inside, left=MARGIN, bottom=MARGIN, right=MARGIN, top=MARGIN):
        """Size a new figure by its axes, in inches, with margins around them."""
        width, height = inside[0] + left + right, inside[1] + bottom + top
        self.figure_.set_size_inches(width, height)
        share = left / width, bottom / height, inside[0] / width, inside[1] / height
        self.ax_.set_position(share)

    def _widths(self, texts, size):
        """Widths of texts."""
        probe = self.figure_.text(0, 0, "", size=size, parse_math=False)
        result = []
        for text in texts:
            probe.set_text(text)
            result.append(probe.get_window_extent().width * 72 / self.figure_.dpi)
        probe.remove()
        return result

    def _longest(self, texts, room, size):
        """Return the last of longer and longer texts that fits, or the first."""
        widths = self._widths(texts[1:], size)
        return texts[sum(width <= room for width in widths)]

    def _write(self, x, y, text, **style):
        """Write a text at a share of the width; a dollar sign is a dollar sign."""
        style |= {"transform": self.ax_.get_yaxis_transform(), "parse_math": False}
        return self.ax_.text(x, y, text, va="center", **style)

    def _label(self, text, place, offset, size, pad=0.15, **style):
        """Write a text on white, some points beside a place."""
        box = {"fc": "white", "ec": "none", "pad": pad * size}
        style = {"bbox": box, "size": size, "zorder": 3, "va": "center"} | style
        style |= {"xytext": offset, "textcoords": "offset points"}
        style |= {"parse_math": False, "annotation_clip": False}
        return self.ax_.annotate(text, place, **style)


def round_ticks(axis):
    """Set ticks at round whole numbers."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))


def shades(color, n):
    """Return `n` mixtures of a colour with white, itself first, the palest last."""
    from matplotlib.colors import to_rgb

    color = np.array(to_rgb(color))
    return [
        tuple(color + (1.0 - color) * share) for share in np.linspace(0, 0.6, max(n, 1))
    ]
