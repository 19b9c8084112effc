"""Words that describe objects as persons, or that stand for a number that has a name."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# What to write instead is in the second column.
INSTEAD = {
    r"nobody(?:'s)?|somebody|anybody|everybody|whoever|whom": "the reader, caller, owner or thread",
    r"so many": "the parameter's name, or `maximum number of`",
    r"hand(?:s|ed|ing)? out|hand-outs?": "return",
    r"told": "passed, given, reported",
    r"(?:is|are|was|were|been|be) asked|asked for|asks for": "requested, needed, read",
    r"wants? to know": "reads",
    r"look(?:s|ed|ing)? at|a look\b(?!-)": "read, check, inspect",
    r"kin": "similar functions",
    r"in vain": "without use",
}
# A phrase may go on in the next line, in a comment behind its mark.
FORBIDDEN = {
    re.compile(rf"\b(?:{words})\b".replace(" ", r"\s+(?:# )?"), re.IGNORECASE): use
    for words, use in INSTEAD.items()
}

# Files that may use a word, with the reason.
EXCEPTIONS = {
    "src/gradtape/tf/keras": "Keras' own vocabulary: callbacks that are told what happens",
}


def texts():
    for folder, pattern in (("src/gradtape", "*.py"), ("docs", "*.md"), ("examples", "*.py")):
        yield from sorted((ROOT / folder).rglob(pattern))
    yield from (ROOT / "README.md", ROOT / "CONTRIBUTING.md")


def test_objects_are_no_persons():
    wrong = []
    for path in texts():
        name = path.relative_to(ROOT).as_posix()
        if any(name.startswith(each) for each in EXCEPTIONS):
            continue
        text = path.read_text(encoding="utf-8")
        for pattern, use in FORBIDDEN.items():
            for found in pattern.finditer(text):
                line = text.count("\n", 0, found.start()) + 1
                wrong.append(f"{name}:{line}: {found.group()!r}; write: {use}")
    assert not wrong, "\n".join(wrong)
