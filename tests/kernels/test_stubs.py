"""Stubs of kernels have the arguments that the kernels declare."""

import ast

import pytest

from kernels.make_stubs import KERNELS, arguments_of, with_arguments

STUBS = sorted(KERNELS.glob("*.pyi"))


def is_written(stub, pyx):
    """Whether writing the arguments of a kernel into its stub changes nothing."""
    new = with_arguments(stub, arguments_of(pyx))
    return ast.dump(ast.parse(new)) == ast.dump(ast.parse(stub))


@pytest.mark.parametrize("path", STUBS, ids=lambda path: path.stem)
def test_stubs_have_the_arguments_of_kernels(path):
    pyx = path.with_suffix(".pyx").read_text("utf-8")
    assert is_written(path.read_text("utf-8"), pyx), "run tests/kernels/make_stubs.py"


PYX = """
def add(
    const double[:, ::1] values,  # IN (n, m)
    Py_ssize_t n, bint mean=False,
    seating=None,
):
"""
STUB = (
    "def add(values: NDArray[float64], n: int, mean: bool = False, "
    "seating: Seating = None) -> int: ..."
)


def test_a_stub_is_written_from_types_of_c():
    assert is_written(STUB, PYX)


@pytest.mark.parametrize(
    "change",
    [("double", "float"), ("n,", "m,"), ("=False", "=True"), ("[:, ::1]", "")],
)
def test_another_argument_of_a_kernel_is_noticed(change):
    assert not is_written(STUB, PYX.replace(*change))
