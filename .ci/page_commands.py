"""The shell commands of a page: `python page_commands.py PAGE SECTION NUMBER`.

Prints the block of that number (from 1) below a heading. `.ci/run` runs what this
prints, and `tests/report.py` lists the commands of pages that it leaves out.
"""

import re
import sys
from pathlib import Path

SHELL = r"(?:sh|bash|shell|console)"
MARKDOWN = re.compile(
    rf"^#+ (?P<title>[^\n]+)$|^```{SHELL}\n(?P<block>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
RST = re.compile(
    r"^(?P<title>\S[^\n]*)\n(?:=+|-+|~+)$"
    rf"|^\.\. code-block:: {SHELL}\n\n(?P<block>(?:   .*\n|\n)+)",
    re.MULTILINE,
)


def blocks(path):
    """Return the blocks of commands of a page by heading and number."""
    found, section, number = {}, "", 0
    pattern = RST if path.suffix == ".rst" else MARKDOWN
    for match in pattern.finditer(path.read_text(encoding="utf-8")):
        if match["title"]:
            section, number = match["title"], 0
        else:
            number += 1
            lines = [line.strip() for line in match["block"].splitlines()]
            found[section, number] = "\n".join(filter(None, lines))
    return found


if __name__ == "__main__":
    page, section, number = sys.argv[1:]
    print(blocks(Path(page))[section, int(number)])
