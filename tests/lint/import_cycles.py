"""No module of the package imports itself, directly or through others.

    python tests/lint/import_cycles.py     # prints every circle as `a -> b -> a`, with exit status 1

What counts as an import of a module of the package:

- `import` and `from ... import` statements anywhere in a module: at its top, under `if TYPE_CHECKING`, and
  inside functions. A reader follows all of them, though only the first kind runs at import time.
- `from package import name` is an import of the module `package.name` where there is one, else of `package`.

What does not count: that importing `a.b.c` also runs `a/__init__.py` and `a/b/__init__.py`, and the names
that `_lazy` loads, which are texts.
"""

import argparse
import ast
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

__all__ = ["circles", "imports_of", "main"]


def imports_of(root: Path) -> dict[str, frozenset[str]]:
    """Module -> modules of the package at `root` that it imports, itself left out."""
    paths = {_module(path, root): path for path in sorted(root.rglob("*.py"))}
    return {
        name: frozenset(_imported(ast.parse(path.read_text(encoding="utf-8")), paths)) - {name}
        for name, path in paths.items()
    }


def circles(imports: Mapping[str, frozenset[str]]) -> list[tuple[str, ...]]:
    """One shortest circle for every group of modules that import each other, from its first module on."""
    reached = {name: _reached(name, imports) for name in imports}
    left, found = set(imports), []
    for name in sorted(imports):
        if name in left and name in reached[name]:
            left -= {other for other in reached[name] if name in reached[other]}
            found.append(_shortest(name, imports))
    return found


def _module(path: Path, root: Path) -> str:
    parts = path.relative_to(root.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imported(tree: ast.Module, known: Mapping[str, object]) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module in known:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in known else node.module


def _reached(name: str, imports: Mapping[str, frozenset[str]]) -> set[str]:
    """What is imported from there, through any number of modules."""
    found: set[str] = set()
    waiting = set(imports[name])
    while waiting:
        one = waiting.pop()
        found.add(one)
        waiting |= imports[one] - found
    return found


def _shortest(name: str, imports: Mapping[str, frozenset[str]]) -> tuple[str, ...]:
    """A shortest way from a module back to it."""
    ways = [(name,)]
    for way in ways:  # grows meanwhile
        for step in sorted(imports[way[-1]]):
            if step == name:
                return (*way, step)
            if all(step != other[-1] for other in ways):
                ways.append((*way, step))
    return ()


def main(arguments: list[str] | None = None) -> int:
    """Print every circle; 1 where there is one."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    root = Path(__file__).parents[2] / "src" / "dpbandits"
    parser.add_argument("--root", type=Path, default=root, help="the package's folder")
    found = circles(imports_of(parser.parse_args(arguments).root))
    for circle in found:
        sys.stdout.write(f"{' -> '.join(circle)}\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
