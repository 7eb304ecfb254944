"""Where the tests find the folders of the repository."""

from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
ROOT = TESTS.parent
DOCS = ROOT / "docs"
EXAMPLES = ROOT / "examples"
FILETESTS = TESTS / "filetests"
