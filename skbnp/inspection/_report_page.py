"""Elements of the HTML page of a report, with all text escaped."""

from collections.abc import Iterable
from html import escape

STYLE = """
:root { --ink: #1b1f24; --soft: #57606a; --line: #d8dee4; --blue: #0072b2;
  --pale: #cfe3f0; }
* { box-sizing: border-box; }
body { font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif;
  color: var(--ink); background: #fff; max-width: 68rem; margin: 0 auto;
  padding: 1.5rem 1.25rem 4rem; }
h1 { font-size: 1.6rem; margin: 0 0 .2rem; }
h2 { font-size: 1.2rem; margin: 2.4rem 0 .7rem; padding-bottom: .25rem;
  border-bottom: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 0 0 .4rem; overflow-wrap: anywhere; }
p { margin: .4rem 0 .8rem; max-width: 48rem; }
.soft { color: var(--soft); }
a { color: var(--blue); text-decoration: none; }
a:hover { text-decoration: underline; }
nav { display: flex; flex-wrap: wrap; gap: .2rem 1rem; }
nav a { white-space: nowrap; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .25rem .8rem .25rem 0;
  border-bottom: 1px solid var(--line); overflow-wrap: anywhere; }
th { font-weight: 600; white-space: nowrap; }
td.number { text-align: right; font-variant-numeric: tabular-nums;
  white-space: nowrap; }
th.number { text-align: right; }
.facts th { width: 14rem; font-weight: 400; color: var(--soft); }
.scroll { overflow-x: auto; }
.cards { display: grid; gap: 1rem;
  grid-template-columns: repeat(auto-fill, minmax(min(20rem, 100%), 1fr)); }
.card { border: 1px solid var(--line); border-radius: 8px; padding: .8rem .9rem; }
.card p { margin: .3rem 0; }
.terms { display: grid; grid-template-columns: fit-content(60%) 1fr; gap: 1px .6rem;
  align-items: center; font-size: .9rem; }
.terms span { overflow-wrap: anywhere; }
.bar { background: var(--blue); height: .6rem; border-radius: 2px; min-width: 1px; }
.share { position: relative; height: .8rem; min-width: 7rem; margin-top: .35rem;
  background: #f3f5f7;
  border-radius: 2px; }
.share i { position: absolute; left: 0; top: 0; bottom: 0; background: var(--pale);
  border-radius: 2px; }
.share b { position: absolute; top: 35%; bottom: 35%; background: var(--blue);
  min-width: 2px; }
blockquote { margin: .4rem 0; padding: .1rem 0 .1rem .7rem; font-size: .88rem;
  border-left: 3px solid var(--line); color: var(--soft); overflow-wrap: anywhere; }
blockquote cite { font-style: normal; color: var(--ink); display: block; }
.methods { background: #f6f8fa; border-radius: 8px; padding: .8rem 1rem;
  max-width: none; }
.warning { background: #fff4e5; border-left: 4px solid #d55e00; padding: .5rem .8rem;
  max-width: none; }
code { font: .88rem ui-monospace, Consolas, monospace; white-space: pre-wrap;
  overflow-wrap: anywhere; }
b code { font-weight: 700; }
@media (max-width: 34rem) { .facts th { width: 48%; white-space: normal;
  font-size: .87rem; } }
@media print { nav { display: none; } .card { break-inside: avoid; } }
"""


def page(title: str, parts: Iterable[str]) -> str:
    """Return a whole page that needs no other file."""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(parts)
        + "\n</body>\n</html>\n"
    )


def section(name: str, title: str, parts: Iterable[str]) -> str:
    """Return a section with a heading that links can name."""
    head = f'<section id="{name}">\n<h2>{escape(title)}</h2>'
    return "\n".join([head, *parts, "</section>"])


def paragraph(text: str, kind: str = "soft") -> str:
    """Return a paragraph of a class of the style sheet."""
    return f'<p class="{kind}">{escape(text)}</p>'


def cell(value: object, *, is_number: bool = False) -> str:
    """Return a cell of a table."""
    kind = ' class="number"' if is_number else ""
    return f"<td{kind}>{escape(str(value))}</td>"


def table(heads: dict[str, bool], rows: Iterable[str], kind: str = "") -> str:
    """Return a table; `heads` map titles to whether columns have numbers."""
    kinds = ("", ' class="number"')
    titles = "".join(f"<th{kinds[heads[head]]}>{escape(head)}</th>" for head in heads)
    top = f"<thead><tr>{titles}</tr></thead>" if heads else ""
    body = "\n".join(f"<tr>{row}</tr>" for row in rows)
    rows_of = f"{top}<tbody>{body}</tbody>"
    return f'<div class="scroll"><table class="{kind}">{rows_of}</table></div>'


def bar(share: float, low: float, high: float, most: float) -> str:
    """Return a bar of a share with its interval; `most` has the full width."""
    scale = 100.0 / most if most > 0.0 else 0.0
    left, width = low * scale, max(high - low, 0.0) * scale
    return (
        f'<div class="share"><i style="width:{min(share * scale, 100):.1f}%"></i>'
        f'<b style="left:{left:.1f}%;width:{min(width, 100 - left):.1f}%"></b></div>'
    )
