"""Write the arguments of kernels into their stubs: python tests/kernels/make_stubs.py.

Arguments, their types and defaults are those of the `.pyx` files. What these do not
declare stays as it is in a stub: what a kernel returns, constants, classes, types of
arguments that are Python objects, and which functions it has.
"""

import ast
import re
import subprocess
import sys
from itertools import accumulate
from pathlib import Path

KERNELS = Path(__file__).parents[2] / "skbnp/kernels"
#: Types of C, by the type of NumPy in arrays and of Python alone.
TYPES = {
    "double": ("float64", "float"),
    "float": ("float32", "float"),
    "int32_t": ("int32", "int"),
    "int64_t": ("int64", "int"),
    "int8_t": ("int8", "int"),
    "uint8_t": ("uint8", "int"),
    "uint32_t": ("uint32", "int"),
    "uint64_t": ("uint64", "int"),
    "Py_ssize_t": ("intp", "int"),
    "int": ("int32", "int"),
    "bint": ("bool_", "bool"),
}
LITERAL = re.compile(r"None|True|False|-?[\d.e+-]+$")
ARGUMENT = re.compile(
    r"(?:const\s+)?(?:(?P<type>\w+)\s*(?P<array>\[[^]]*\])?\s+)?(?P<name>\w+)"
    r"\s*(?P<none>not None|or None)?\s*(?:=\s*(?P<default>\S+))?$"
)


def arguments_of(pyx):
    """Arguments of each function that Python can call, as (name, type, default)."""
    functions = {}
    for match in re.finditer(r"^def (\w+)\(", pyx, re.M):
        code = re.sub(r"#[^\n]*", "", pyx[match.end() :])
        depths = accumulate((c in "([") - (c in ")]") for c in code)
        end = next(place for place, depth in enumerate(depths) if depth < 0)
        parts = re.split(r",(?![^\[]*\])", code[:end])
        texts = [" ".join(part.split()) for part in parts]
        functions[match[1]] = [_argument(text) for text in texts if text]
    return functions


def _argument(text):
    match = ARGUMENT.match(text)
    kind, default = TYPES.get(match["type"]), match["default"]
    if kind is not None:
        kind = f"NDArray[{kind[0]}]" if match["array"] else kind[1]
        kind += " | None" if default == "None" else ""
    if default is not None and not LITERAL.match(default):
        default = "..."
    return match["name"], kind, default


def with_arguments(stub, functions):
    """Return the text of a stub, with the arguments of functions."""
    lines = stub.splitlines(keepends=True)
    for node in reversed(ast.parse(stub).body):
        if isinstance(node, ast.FunctionDef):
            known = {arg.arg: ast.unparse(arg.annotation) for arg in node.args.args}
            arguments = ", ".join(
                f"{name}: {kind or known.get(name, 'Any')}"
                + ("" if default is None else f" = {default}")
                for name, kind, default in functions[node.name]
            )
            returned = ast.unparse(node.returns)
            code = f"def {node.name}({arguments}) -> {returned}: ...\n"
            lines[node.lineno - 1 : node.end_lineno] = [code]
    return "".join(lines)


def main():
    """Write all stubs, formatted."""
    stubs = sorted(KERNELS.glob("*.pyi"))
    for path in stubs:
        functions = arguments_of(path.with_suffix(".pyx").read_text("utf-8"))
        path.write_text(with_arguments(path.read_text("utf-8"), functions), "utf-8")
    subprocess.run([sys.executable, "-m", "ruff", "format", "-q", *stubs], check=True)


if __name__ == "__main__":
    main()
