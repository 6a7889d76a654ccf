"""How Sphinx builds the user guide and the reference: ``sphinx-build -W docs build/docs``."""

from __future__ import annotations

from streamk import __version__

project = "streamk"
author = "the streamk authors"
version = release = __version__

root_doc = "contents"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
myst_heading_anchors = 3
default_role = "code"
autodoc_member_order = "bysource"
autodoc_mock_imports = ["capymoa"]  # which takes 2 GB, for two base classes
autodoc_typehints = "none"  # the docstrings tell shapes and dtypes, which annotations cannot
autodoc_default_options = {"members": True, "show-inheritance": True}
suppress_warnings = ["ref.python"]  # the n of a shape (n, d) is several classes' attribute, too
napoleon_google_docstring = False
napoleon_use_ivar = True  # attributes that have a docstring of their own are not listed twice

html_theme = "furo"
html_title = f"streamk {release}"
