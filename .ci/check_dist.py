"""What the source distribution and the wheel must hold, and what not."""

import sys
import tarfile
import zipfile

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
assert any(name.startswith("skbnp/kernels/_hdp_local.") for name in names)
assert any(name.endswith((".so", ".pyd")) for name in names), "no compiled kernel"
assert "skbnp/py.typed" in names
stray = [name for name in names if not name.startswith(("skbnp/", "skbnp-"))]
assert not stray, f"the wheel holds {stray}"
print(f"{sdist}: {len(generated)} generated files; {wheel}: {len(names)} files")
