"""The site that `make docs` builds with Sphinx: pages in Markdown, and docstrings.

Warnings are errors there: a link, an anchor or a name that leads nowhere fails the build.
"""

import sys
from pathlib import Path

from sphinx.application import Sphinx

sys.path.insert(0, str(Path(__file__).parent.parent))

from docs.lexer import ConsoleLexer, HloLexer

project = "hlo-tools"
extensions = [
    "docs.commands", "myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
]  # fmt: skip
html_theme = "furo"
html_title = project
html_show_copyright = False

myst_heading_anchors = 4  # as GitHub has them
# In docstrings, `hlo.parse` is a link, and what is no name is code.
default_role = "py:obj"
autodoc_member_order = "bysource"
python_use_unqualified_type_names = True


def setup(app: Sphinx) -> None:
    app.add_lexer("hlo", HloLexer)
    app.add_lexer("console", ConsoleLexer)
