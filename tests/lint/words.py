"""Check what people read: docstrings, comments, help texts, error messages and pages.

    python tests/lint/words.py              # fails where a file has more findings than are accepted
    python tests/lint/words.py --show PATH  # prints every finding under a path
    python tests/lint/words.py --accept     # lowers the accepted numbers to what is there now

| rule | finding |
|---|---|
| `start` | a docstring, an argument's description, a help text or a heading begins without a subject |
| `word` | a private word where the field has a term; see `INSTEAD` |
| `long` | a sentence has more than `LONGEST` words |
| `page` | a page has more than `LARGEST` words |

Code, formulas, tables and links are not read. `words.json` holds how many findings of a rule each file may
have. A new file may have none.
"""

import argparse
import ast
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

__all__ = ["ACCEPTED", "Finding", "findings", "in_page", "in_source", "main"]

LONGEST = 35
"""Largest number of words of a sentence."""

LARGEST = 1500
"""Largest number of words of a page."""

ACCEPTED = Path(__file__).with_name("words.json")
"""Numbers of findings that are accepted: by path, then by rule."""

STARTS = re.compile(
    r"(Of|In|Where|So|What|Whether|The same|Whom|Whose|As long as|Like)\b(?!.*\?$)(?! order to)"
)
"""Beginnings of text that lacks a subject. A question may begin with any word."""

INSTEAD = {
    r"(?<!head)rooms?\b(?! left)": "trust model, package",
    r"doors?\b": "entry point, package",
    r"what (?:leaves|left)\b": "release",
    r"what was drawn": "release",
    r"what pays": "privacy budget",
    r"unit moves": "neighbouring data sets",
    r"mixed sums?": "matrix mechanism",
    r"randomised logs?": "logged bandit data",
    r"share kept": "retained uplift",
    r"put(?:ting)? back": "rollback",
    r"people who change": "non-stationarity",
    r"\blives\b": "processes, runs",
    r"\bkeeper\b": "owner, process",
}
"""Private words, as patterns, and the terms to use."""

_WORDS = {re.compile(rf"\b{pattern}", re.IGNORECASE): term for pattern, term in INSTEAD.items()}
_CODE = re.compile(r"``.*?``|`[^`]*`|\$[^$]*\$|https?://\S+|:[a-z:]+:`[^`]*`|\{[a-z-]+\}`[^`]*`")
_ITEM = re.compile(r"\s*(?:[-*]|\d+\.)\s+")
_ENTRY = re.compile(r"\s{4,}\**[A-Za-z_][\w.*, ]*(?:\([^)]*\))?: (?P<said>[^\s=].*)")
_RULE = re.compile(r"=+(?: +=+)+$")
_SECTION = re.compile(r"\s*(Args|Attributes|Parameters|Raises|Returns|Yields):\s*$")


class Finding(NamedTuple):
    """One place, and what is wrong there."""

    path: Path
    line: int
    rule: str
    said: str


def _begins(said: str) -> bool:
    return bool(STARTS.match(said.strip().strip("*_\"'")))


def _paragraphs(lines: list[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Yield paragraphs and items of lists, with the line they begin at, without code, tables and headings."""
    number, parts, fenced, table = 0, list[str](), False, False
    literal: int | None = None  # indentation of the line ending in "::" above a literal block
    for at, line in [*lines, (0, "")]:
        bare = line.strip()
        indent = len(line) - len(line.lstrip())
        if literal is not None and bare and indent <= literal:
            literal = None
        table = bool(bare) and (table or bool(_RULE.match(bare)))  # from its first rule to an empty line
        code = fenced or table or literal is not None
        code = code or bare.startswith(("```", ":::", ">>>", "...", "|", "#", ".. ", "%", "$$", "(", "<"))
        if bare.endswith("::") and not code:
            literal = indent
        if bare.startswith(("```", "~~~")):
            fenced = not fenced
        if code or not bare or _ITEM.match(line) or _ENTRY.match(line) or _SECTION.match(line):
            if parts:
                yield number, " ".join(parts)
            parts = []
        if bare and not code:
            number = number if parts else at
            parts.append(line[item.end() if (item := _ITEM.match(line)) else 0 :].strip())


def _prose(path: Path, lines: list[tuple[int, str]]) -> Iterator[Finding]:
    """Findings of words and of long sentences in a text."""
    for at, text in _paragraphs(lines):
        plain = _CODE.sub("x", text)
        for pattern, term in _WORDS.items():
            for found in pattern.finditer(plain):
                yield Finding(path, at, "word", f"{found[0]!r}: say {term}")
        for sentence in re.split(r"(?<=[.!?:;])\s+(?=[A-Z`*(\"']|x\b)", plain):
            count = sum(any(map(str.isalnum, word)) for word in sentence.split())
            if count > LONGEST:
                yield Finding(path, at, "long", f"{count} words: {sentence[:60]}...")


def in_page(path: Path, text: str) -> Iterator[Finding]:
    """Findings of a page in Markdown."""
    body = re.sub(r"\A---\n.*?\n---\n", lambda found: "\n" * found[0].count("\n"), text, flags=re.DOTALL)
    lines, fenced = list(enumerate(body.splitlines(), 1)), False
    for at, line in lines:
        fenced ^= line.startswith(("```", "~~~"))
        if not fenced and line.startswith("#") and _begins(line.lstrip("# ")):
            yield Finding(path, at, "start", line)
    yield from _prose(path, lines)
    count = sum(len(one.split()) for _, one in _paragraphs(lines))
    if count > LARGEST:
        yield Finding(path, 1, "page", f"{count} words")


def _docstring(path: Path, node: ast.AST, text: str, first: int) -> Iterator[Finding]:
    lines = list(enumerate(text.splitlines(), first))
    if _begins(text):
        yield Finding(path, first, "start", lines[0][1].strip())
    for at, line in lines[1:]:
        entry = _ENTRY.match(line)
        if (
            entry
            and _begins(entry["said"][0].upper() + entry["said"][1:])
            and not isinstance(node, ast.Module)
        ):
            yield Finding(path, at, "start", line.strip())
    yield from _prose(path, lines)


def in_source(path: Path, text: str) -> Iterator[Finding]:
    """Findings of a module: docstrings, also those of constants, help texts, messages and comments."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else []:
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                said = statement.value.value
                if isinstance(said, str):
                    yield from _docstring(path, node, said, statement.lineno)
        if isinstance(node, ast.keyword) and node.arg in {"help", "description"}:
            for part in ast.walk(node.value):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    if _begins(part.value):
                        yield Finding(path, part.lineno, "start", part.value[:60])
                    yield from _prose(path, [(part.lineno, part.value)])
                    break
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            for part in ast.walk(node.exc):
                if isinstance(part, ast.Constant) and isinstance(part.value, str) and " " in part.value:
                    yield from _prose(path, [(part.lineno, part.value)])
    comments: list[tuple[int, str]] = []
    for at, line in [*enumerate(text.splitlines(), 1), (0, "")]:
        bare = line.strip()
        if bare.startswith("# ") and (not comments or comments[-1][0] == at - 1):
            comments.append((at, bare[2:]))
        elif comments:
            yield from _prose(path, comments)
            comments = [(at, bare[2:])] if bare.startswith("# ") else []


def findings(root: Path, under: str = "") -> Iterator[Finding]:
    """Yield findings of the library, of programs beside it, of pages and of the README."""
    folders = ("src", "reproduction", "benchmarks", "docs/_ext")
    sources = [path for folder in folders for path in (root / folder).rglob("*.py")]
    pages = [*root.glob("*.md"), *(root / "docs").glob("*.md"), *(root / "docs").glob("[a-z]*/*.md")]
    for path in sorted(sources) + sorted(pages):
        name = path.relative_to(root)
        if str(name).startswith(under) and name.name != "CHANGELOG.md":
            text = path.read_text(encoding="utf-8")
            yield from (in_source if path.suffix == ".py" else in_page)(name, text)


def main(arguments: list[str] | None = None) -> int:
    """Return 1 if a file has more findings than are accepted."""
    parser = argparse.ArgumentParser(description="Check what people read.")
    parser.add_argument("--show", default=None, help="Path whose findings are printed.")
    parser.add_argument("--accept", action="store_true", help="Lower the accepted numbers.")
    chosen = parser.parse_args(arguments)
    root = Path(__file__).resolve().parents[2]
    if chosen.show is not None:
        for one in findings(root, chosen.show):
            sys.stdout.write(f"{one.path}:{one.line}: {one.rule}: {one.said}" + "\n")
        return 0
    counts = Counter((str(one.path), one.rule) for one in findings(root))
    accepted = json.loads(ACCEPTED.read_text()) if ACCEPTED.exists() else None
    if chosen.accept:
        kept: dict[str, dict[str, int]] = {}
        for (path, rule), count in sorted(counts.items()):
            most = count if accepted is None else min(count, accepted.get(path, {}).get(rule, 0))
            if most:
                kept.setdefault(path, {})[rule] = most
        ACCEPTED.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
        accepted = kept
    over = [
        (path, rule, count, (accepted or {}).get(path, {}).get(rule, 0))
        for (path, rule), count in sorted(counts.items())
        if count > (accepted or {}).get(path, {}).get(rule, 0)
    ]
    for path, rule, count, most in over:
        sys.stdout.write(
            f"{path}: {count} findings of {rule!r}, accepted are {most}; --show {path} prints them" + "\n"
        )
    sys.stdout.write(
        f"{sum(counts.values())} findings, {len(over)} files and rules above what is accepted" + "\n"
    )
    return bool(over)


if __name__ == "__main__":
    sys.exit(main())
