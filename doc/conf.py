"""Configuration of the documentation; CONTRIBUTING.md has the commands."""

import re
import sys
import warnings
import zlib
from pathlib import Path

import matplotlib
from numpydoc.docscrape_sphinx import SphinxDocString

import skbnp
from skbnp.utils.lazy import SITE

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # gallery_order

project = "skbnp"
author = "The skbnp developers"
copyright = author
version = "dev" if "dev" in skbnp.__version__ else skbnp.__version__
release = skbnp.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",  # formulas are drawn without a network
    "numpydoc",
    "matplotlib.sphinxext.plot_directive",
    "myst_parser",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
templates_path = ["_templates"]
exclude_patterns = ["_build", "_templates", "inventories", "**/GALLERY_HEADER.rst"]
# What stands in single backquotes in docstrings is code, as in scikit-learn's.
default_role = "literal"
smartquotes = False  # quotes are part of values
toc_object_entries_show_parents = "hide"
nitpicky = True

# -- API pages -------------------------------------------------------------------------
autosummary_generate = True


def pages_of_names():
    """Pages of the guide that say most of each public name, three at most."""
    pages = {
        f"/guide/{path.stem}": path.read_text(encoding="utf-8")
        for path in sorted((HERE / "guide").glob("*.rst"))
    }
    role = r":(?:class|func):`(?:[^`<]*<)?[~!]?(skbnp\.[\w.]+)"
    linked = {page: re.findall(role, text) for page, text in pages.items()}
    result = {}
    for name in {name for names in linked.values() for name in names}:
        last, found = name.rpartition(".")[2], []
        for page, text in pages.items():
            title = next(line for line in text.splitlines() if line.strip("="))
            n_times = linked[page].count(name) + len(re.findall(rf"``{last}\(", text))
            if n_times:
                found.append((last not in title.split(), -n_times, page))
        result[name] = [page for *_, page in sorted(found)[:3]]
    return result


autosummary_context = {"guides": pages_of_names()}
autodoc_typehints = "none"  # numpydoc's sections have the types
autodoc_default_options = {"member-order": "alphabetical"}
# Methods stand on the page of their class; its template lists them.
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
plot_html_show_source_link = False
plot_html_show_formats = False
plot_formats = [("png", 120)]

# -- links to other documentations -----------------------------------------------------
# Without a network the names in inventories/ are known, and no others.
SITES = {
    "matplotlib": "https://matplotlib.org/stable/",
    "numpy": "https://numpy.org/doc/stable/",
    "pandas": "https://pandas.pydata.org/docs/",
    "python": "https://docs.python.org/3/",
    "scipy": "https://docs.scipy.org/doc/scipy/",
    "sklearn": "https://scikit-learn.org/stable/",
}
intersphinx_timeout = 5


def inventory(name):
    """Pack the plain lines of an inventory as Sphinx reads them.

    Each is ``name domain:role priority address title``, as `python -m
    sphinx.ext.intersphinx` would print it: `$` in the address is the name, and `-` in
    the place of the title too.
    """
    text = (HERE / "inventories" / f"{name}.txt").read_text(encoding="utf-8")
    packed = HERE / "_build" / "inventories" / f"{name}.inv"
    packed.parent.mkdir(parents=True, exist_ok=True)
    head = (
        f"# Sphinx inventory version 2\n# Project: {name}\n# Version: \n"
        "# The remainder of this file is compressed using zlib.\n"
    )
    packed.write_bytes(head.encode() + zlib.compress(text.encode()))
    return str(packed.relative_to(HERE))


intersphinx_mapping = {
    name: (address, (None, inventory(name))) for name, address in SITES.items()
}

# -- gallery ---------------------------------------------------------------------------
matplotlib.use("Agg")
# Pages show what fits warn of, without the paths of the machine that made them.
warnings.formatwarning = lambda message, kind, *place: f"{kind.__name__}: {message}\n"
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"[\\/]plot_",
    "ignore_pattern": r"(^|[\\/])quickstart\.py$",
    "doc_module": ("skbnp",),
    "reference_url": {"skbnp": None},
    "backreferences_dir": "api/backreferences",
    "within_subsection_order": "gallery_order.place_of",
    "subsection_order": [
        *(
            f"../examples/{folder}"
            for folder in ("hdp", "trees", "epochs", "components")
        ),
        "*",
    ],
    "image_srcset": ["2x"],
    "remove_config_comments": True,
    "download_all_examples": False,
    "min_reported_time": 1e6,
    "write_computation_times": False,
    "show_memory": False,
    "abort_on_example_error": False,
    "only_warn_on_example_error": False,
}

# -- HTML ------------------------------------------------------------------------------
html_theme = "pydata_sphinx_theme"
html_title = "skbnp"
html_static_path = ["_static"]
html_css_files = ["skbnp.css"]
html_js_files = ["skbnp.js"]
html_favicon = "_static/favicon.svg"
# Where the pages are published, if anywhere. The list of versions is read from there.
site = SITE
html_baseurl = f"{site}/" if site else ""
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"text": f"skbnp {version}"},
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "navbar_end": ["theme-switcher", *(["version-switcher"] if site else [])],
    "navbar_persistent": ["search-button"],
    "switcher": {
        "json_url": f"{site}/_static/switcher.json",
        "version_match": version,
    },
    "check_switcher": False,
    "show_toc_level": 2,
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars = {"changelog": [], "bibliography": [], "404": []}


def skip_attributes(app, what, name, value, skip, options):
    """Leave out properties and fields: they stand in numpydoc's sections."""
    if skip or what != "class":
        return None
    return True if not callable(value) else None


def escape_types(app, what, name, value, options, lines):
    """Let names that end in an underscore be none of links in types of sections."""
    for number, line in enumerate(lines):
        entry = re.match(r"(\*{0,2}\w[\w, *]* : )(.*)", line)
        if entry:
            lines[number] = entry[1] + re.sub(r"(?<=\w)_(?!\w)", r"\_", entry[2])


process_param = SphinxDocString._process_param


def keep_description(self, param, desc, fake_autosummary):
    """Describe attributes that are properties by the docstring of the class, too."""
    return process_param(self, param, desc, False)


SphinxDocString._process_param = keep_description


def name_results(app, docname, source):
    """Show the index of benchmarks, whose pages are not part of the site."""
    if docname == "developer/results":
        index = (HERE.parent / "benchmarks" / "README.md").read_text(encoding="utf-8")
        link = r"\[([^]]*)\]\((?:results/)?([\w/]+\.md)\)"
        source[0] = re.sub(link, r"\1 (`\2`)", index)


def anchor_missing_page(app, pagename, templatename, context, doctree):
    """Let links of the page for missing ones start from the root of the site."""
    if pagename == "404" and site:
        context["metatags"] = f'<base href="{site}/">' + context.get("metatags", "")


def setup(app):
    """Connect what is ours."""
    app.connect("html-page-context", anchor_missing_page)
    app.connect("source-read", name_results)
    app.connect("autodoc-skip-member", skip_attributes)
    app.connect("autodoc-process-docstring", escape_types, priority=400)
