"""What is declared about the package agrees with what it is."""

import ast
import re
import runpy
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import skbnp
from skbnp.utils import lazy

ROOT = Path(__file__).parents[1]
DECLARED = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = DECLARED["project"]
#: Distributions that have another name than their module.
DISTRIBUTIONS = {
    "mpl_toolkits": "matplotlib",
    "sklearn": "scikit-learn",
}


def names(requirements):
    return {Requirement(text).name.lower() for text in requirements}


NEEDED = names(PROJECT["dependencies"])
#: What users may add; the extras of those who change the package do not count.
OPTIONAL = {
    name
    for extra, requirements in PROJECT["optional-dependencies"].items()
    if extra not in ("test", "dev", "docs")
    for name in names(requirements)
}


def outside(source):
    """Yield distributions that a file imports, and whether importing it needs them."""
    waiting, known = [(ast.parse(source), True)], {"skbnp", "_typeshed"}
    while waiting:
        node, at_once = waiting.pop()
        at_once &= not isinstance(node, (ast.FunctionDef, ast.If, ast.Try))
        waiting += [(child, at_once) for child in ast.iter_child_nodes(node)]
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        else:
            modules = [node.module] if isinstance(node, ast.ImportFrom) else []
        for name in {module.split(".")[0] for module in modules} - known:
            if name not in sys.stdlib_module_names:
                yield DISTRIBUTIONS.get(name, name), at_once


def undeclared(path, source):
    """Distributions that a file of the package imports without a right to."""
    is_extra = path.startswith("dask/")
    return {
        name
        for name, at_once in outside(source)
        if name not in (NEEDED if at_once and not is_extra else NEEDED | OPTIONAL)
    }


def test_every_import_is_a_declared_dependency():
    package = Path(skbnp.__file__).parent
    for path in package.rglob("*.py"):
        lost = undeclared(
            path.relative_to(package).as_posix(), path.read_text(encoding="utf-8")
        )
        assert not lost, f"{path} imports {lost}, which pyproject.toml lacks"


def test_examples_of_the_site_have_what_they_import():
    extra = NEEDED | names(PROJECT["optional-dependencies"]["docs"])
    for path in (ROOT / "examples").rglob("plot_*.py"):
        imports = {name for name, _ in outside(path.read_text(encoding="utf-8"))}
        assert imports <= extra, f"{path} imports {imports - extra}"


def test_citation_has_the_version_and_a_date():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {skbnp.__version__}\n" in citation
    assert re.search(r"\ndate-released: \d{4}-\d\d-\d\d\n", citation)


def test_those_who_change_kernels_have_what_builds_them():
    requirements = DECLARED["build-system"]["requires"]
    dev = {*PROJECT["optional-dependencies"]["dev"], *PROJECT["dependencies"]}
    assert set(requirements) <= dev
    contributing = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    quoted = " ".join(f'"{text}"' for text in requirements)
    assert f"pip install {quoted}\n" in contributing


# -- setup.py --------------------------------------------------------------------------


@pytest.fixture
def setup(monkeypatch):
    monkeypatch.chdir(ROOT)
    return runpy.run_path("setup.py", run_name="setup")


def test_no_link_leads_to_a_page_that_is_not_there(setup, monkeypatch):
    """One variable fills in those of metadata, of drawings and of the citation."""
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    urls = {"Documentation": lazy.SITE} if lazy.SITE else {}
    assert setup["project_urls"]() == urls
    assert re.findall(r"^url: (.*)$", citation, re.MULTILINE) == [*urls.values()]
    hdp = skbnp.HDP()
    assert hdp._get_doc_link().startswith(lazy.SITE)
    assert bool(hdp._get_doc_link()) == bool(lazy.SITE)
    monkeypatch.setattr(skbnp.HDP, "_doc_link_template", "https://a.b/api/index.html")
    assert 'href="https://a.b/api/index.html"' in hdp._repr_html_()


def test_what_is_not_installed_is_named_alone_and_what_is_broken_with_its_cause(
    monkeypatch, tmp_path
):
    advice = r"^Figures need absent; install it with `pip install absent`\.$"
    with pytest.raises(ImportError, match=advice) as caught:
        lazy.import_optional("absent.plots", "Figures need absent", "absent")
    assert caught.value.__suppress_context__
    (tmp_path / "absent.py").write_text("import its_own_need", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ImportError, match=advice) as caught:
        lazy.import_optional("absent", "Figures need absent", "absent")
    assert "its_own_need" in str(caught.value.__cause__)


RELATIVE = re.compile(r"\]\((?!https?://)[^)]*\)")


def test_description_has_no_link_that_only_a_checkout_can_follow(setup):
    assert RELATIVE.search((ROOT / "README.md").read_text(encoding="utf-8"))
    assert not RELATIVE.search(setup["long_description"]())


def test_every_header_belongs_to_a_kernel_and_every_kernel_is_built(setup):
    folder = Path("skbnp/kernels")
    taken = {path for name in setup["KERNELS"] for path in setup["headers_of"](name)}
    assert taken == {path.as_posix() for path in (folder / "src").glob("*.h")}
    assert {path.stem for path in folder.glob("*.pyx")} == set(setup["KERNELS"])
