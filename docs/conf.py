"""The site: `make docs` builds it from the pages, the docstrings and the notebooks, without a network."""

import importlib
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "docs" / "extensions")]

project = author = "fourier_attn"
copyright = "the developers of fourier_attn, Apache-2.0"
release = importlib.import_module("fourier_attn").__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "api_pages",
    "docstrings",
    "heads",
    "mathematics",
    "mixer_pages",
    "pages",
]
root_doc = "docs/index"
include_patterns = ["docs/**", "notebooks/**", "results/**.md"]
exclude_patterns = ["docs/extensions", "**/.*"]

html_theme = "furo"
html_title = "fourier_attn"
html_copy_source = html_show_sourcelink = False
html_static_path = ["static"]
html_favicon = "static/favicon.svg"
html_css_files = ["site.css"]
html_js_files = ["scrolling.js"]
html_search_scorer = str(ROOT / "docs" / "static" / "search-scorer.js")
html_math_renderer_name = "mathml"
templates_path = ["templates"]
html_additional_pages = {"index": "root.html"}  # build/site/index.html leads to the landing page

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_line_continuation_character = "\\"

myst_enable_extensions = ["dollarmath", "amsmath", "deflist", "attrs_block", "colon_fence"]
myst_heading_anchors = 4
myst_update_mathjax = False
nb_execution_mode = "cache"
nb_execution_cache_path = str(ROOT / "build" / "notebooks")
nb_execution_timeout = 300
nb_execution_raise_on_error = True
nb_merge_streams = True

default_role = "literal"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
maximum_signature_line_length = 80
smartquotes = False  # "auto" is a value
autodoc_preserve_defaults = True
suppress_warnings = ["config.cache"]
nitpicky = False
linkcheck_ignore = [r"http://localhost.*"]
