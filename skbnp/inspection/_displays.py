"""What all figures by matplotlib have in common."""

from typing import Any

import numpy as np

from skbnp.utils.lazy import import_optional
from skbnp.utils.typing import Axes, Figure

#: Of Okabe and Ito: different for every kind of colour vision.
COLOURS = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"
BLUE, VERMILION = COLOURS[:2]
GREY = "#666666"
#: Inches around all, and across, where the figure is ours; points of letters.
MARGIN, MAX_WIDTH, FONT = 0.25, 10.0, 9.0
#: Letters of a name in a figure; points of a line that are drawn as dots too.
LONGEST_NAME, FEW_POINTS = 18, 40


def shortened(text, most=LONGEST_NAME):
    """Shorten a text, as a name to the room of a title or a label."""
    return text if len(text) <= most else text[: most - 1] + "…"


class Display:
    """Axes that a figure is drawn in, what stands around them, and texts in them."""

    ax_: Axes
    figure_: Figure

    def _begin(self, ax, **style) -> Any:
        """Take axes, or make a figure, if there is matplotlib; return the axes."""
        need = "Displays need matplotlib"
        plt = import_optional("matplotlib.pyplot", need, '"skbnp[plot]"')
        self.ax_ = ax = plt.subplots(**style)[1] if ax is None else ax
        self.figure_ = ax.figure
        return ax

    @property
    def _extent(self) -> Any:
        """Width and height of the axes, in points."""
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

    @staticmethod
    def _finish(ax, **labels):
        """Name the axes, and remove the frame above and on the right."""
        ax.set(**labels)
        ax.spines[["top", "right"]].set_visible(False)

    @staticmethod
    def _topic_label(name, otherwise):
        """Return the name of a topic, shortened; `otherwise` if it has none."""
        return shortened(name) if name else str(otherwise)

    @staticmethod
    def _in_percent(axis):
        """Write shares in per cent."""
        axis.set_major_formatter(lambda share, _: f"{100 * share:g} %")

    @staticmethod
    def _round_ticks(axis):
        """Set ticks at round whole numbers."""
        from matplotlib.ticker import MaxNLocator

        axis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))

    @staticmethod
    def _line_style(given, n_points, **defaults):
        """Replace the style of a line by what users give, by any of its names."""
        from matplotlib.cbook import normalize_kwargs
        from matplotlib.lines import Line2D

        defaults = {"marker": "o" * (n_points < FEW_POINTS), "markersize": 4} | defaults
        return defaults | normalize_kwargs(given, Line2D)

    @staticmethod
    def _mark(label, **style):
        """Return a line or a marker for a legend."""
        from matplotlib.lines import Line2D

        return Line2D([], [], label=label, **style)

    def _legend(self, handles=None, **style):
        """Draw a legend without a frame; a dollar sign is a dollar sign."""
        key = self.ax_.legend(handles=handles, frameon=False, **style)
        for text in key.get_texts():
            text.set_parse_math(False)
        return key

    def _widths(self, texts, size, weight="normal"):
        """Widths of texts."""
        style = {"size": size, "weight": weight, "parse_math": False}
        probe = self.figure_.text(0, 0, "", **style)
        result = []
        for text in texts:
            probe.set_text(text)
            result.append(probe.get_window_extent().width * 72 / self.figure_.dpi)
        probe.remove()
        return result

    def _longest(self, texts, room, size, weight="normal"):
        """Return the last of longer and longer texts that fits, or the first."""
        widths = self._widths(texts[1:], size, weight)
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
