#!/usr/bin/env python3
"""Lines of Rust code by concept: no blank lines, no comments, no tests.

    scripts/lines-of-code.py [CHECKOUT]

A concept is a folder or file directly below `src` of a crate; a module file counts with its folder.
Needs Python 3.11 alone.
"""

import re
import sys
from collections import Counter
from pathlib import Path


TESTS = r"#\[cfg\((?:test|all\(test,[^\n]*)\)\]\n(?:#\[[^\n]*\]\n)*(?:pub(?:\(\w+\))? )?"


def is_test(path):
    return path.name in ("tests.rs", "testing.rs") or path.stem.endswith("_tests") or "tests" in path.parent.parts


def for_tests(crate):
    """Files that are compiled for tests alone, whatever they are called: `#[cfg(test)] mod golden;`."""
    found = set()
    for path in (crate / "src").rglob("*.rs"):
        folder = path.parent if path.name in ("mod.rs", "lib.rs", "main.rs") else path.with_suffix("")
        for name in re.findall(TESTS + r"mod (\w+);", path.read_text()):
            found |= {folder / f"{name}.rs", *(folder / name).rglob("*.rs")}
    return found


def code_lines(text):
    # Tests of a file are at its end.
    text = re.split("^" + TESTS + r"mod \w+ \{", text, flags=re.M)[0]
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    lines = (line.strip() for line in text.splitlines())
    return sum(1 for line in lines if line and not line.startswith("//"))


def count(root):
    lines = Counter()
    for crate in sorted((root / "crates").iterdir()):
        tests = for_tests(crate)
        for path in sorted((crate / "src").rglob("*.rs")):
            inside = path.relative_to(crate / "src")
            if path not in tests and not is_test(inside):
                concept = inside.parts[0].removesuffix(".rs")
                # Before the crates were four, the operations were a folder.
                if concept == "ops" and len(inside.parts) > 1:
                    concept = f"ops/{inside.parts[1].removesuffix('.rs')}"
                lines[f"{crate.name}/{concept}"] += code_lines(path.read_text())
    return lines


def main():
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[1]
    lines = count(root)
    crates = Counter()
    for concept, number in sorted(lines.items()):
        crates[concept.split("/")[0]] += number
        print(f"{number:6} {concept}")
    print()
    for crate, number in crates.items():
        print(f"{number:6} {crate}")
    print(f"{sum(crates.values()):6} in all")


if __name__ == "__main__":
    main()
