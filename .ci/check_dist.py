"""What the source distribution and the wheel must hold, and what not."""

import re
import sys
import tarfile
import zipfile
from email.parser import Parser

sdist, wheel = sys.argv[1:]
names = [name.split("/", 1)[-1] for name in tarfile.open(sdist).getnames()]
for needed in (
    "LICENSE",
    "README.md",
    "doc/conf.py",
    "doc/api/index.rst",
    "doc/inventories/sklearn.txt",
    "examples/GALLERY_HEADER.rst",
    "examples/quickstart.py",
    "skbnp/kernels/_hdp_local.pyi",
    "skbnp/kernels/_hdp_local.pyx",
    "skbnp/kernels/_seating.pxd",
    "skbnp/kernels/src/document.h",
    "skbnp/py.typed",
    "tests/kernels/test_hdp_local.py",
):
    assert needed in names, f"the source distribution lacks {needed}"
built = ("doc/_build/", "doc/auto_examples/", "doc/api/generated/")
generated = [
    name
    for name in names
    if name.endswith((".so", ".pyd", ".pyc", ".c")) or name.startswith(built)
]
assert not generated, f"the source distribution holds generated files: {generated}"

names = zipfile.ZipFile(wheel).namelist()
assert "skbnp/kernels/_hdp_local.pyi" in names, "the wheel lacks stubs"
assert any(name.endswith((".so", ".pyd")) for name in names), "no compiled kernel"
assert "skbnp/py.typed" in names
stray = [name for name in names if not name.startswith(("skbnp/", "skbnp-"))]
assert not stray, f"the wheel holds {stray}"
metadata = zipfile.ZipFile(wheel).read(
    next(name for name in names if name.endswith(".dist-info/METADATA"))
)
page = Parser().parsestr(metadata.decode())
assert page["Description-Content-Type"] == "text/markdown"
assert "# skbnp" in page.get_payload(), "the wheel lacks the README"
relative = re.findall(r"\]\((?!https?://)[^)]*\)", page.get_payload())
assert not relative, f"links of the README that lead nowhere from PyPI: {relative}"
site = re.search(
    r'^SITE = "(.*)"$',
    zipfile.ZipFile(wheel).read("skbnp/utils/lazy.py").decode(),
    re.MULTILINE,
)[1]
links = [f"Documentation, {site}"] if site else []
assert page.get_all("Project-URL", []) == links
print(f"{sdist}: {len(generated)} generated files; {wheel}: {len(names)} files")
