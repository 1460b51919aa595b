"""Configuration of the documentation site; ``scripts/docs.sh`` builds it.

The build needs no network: there is no intersphinx, and formulas become MathML (``_ext/mathml.py``) instead
of a script from a server.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "_ext"), str(HERE.parent / "src"), str(HERE.parent / "studies")]
os.environ.setdefault("MPLBACKEND", "Agg")

import dcfw  # noqa: E402

project = "dcfw"
author = "the dcfw developers"
copyright = "the dcfw developers, MIT licence"
version = release = dcfw.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
    "aligned_lists",
    "inside",
    "mathml",
    "repository_text",
]
exclude_patterns = ["_build", "api/generated/backreferences/*", "sg_execution_times.rst"]
templates_path = ["_templates"]
highlight_language = "none"
nitpicky = True
nitpick_ignore_regex = [
    # Base classes that live in other projects, whose inventories are not downloaded.
    (r"py:.*", r"(scipy|torch|sklearn|numpy|joblib|matplotlib)\..*"),
    (
        r"py:class",
        r"dcfw\..*\._\w+|dcfw\.sets\.(compact\.CompactSet|norms\.NormBall)"
        r"|dcfw\.functions\.(base\.Stated|finite_sum\.Sampled|given\.Given|sums\.(LinearFunction|Made))",
    ),  # base classes without a page
    (r"py:class", r"(enum\.|typing\.)?(IntEnum|NamedTuple|Protocol)"),
]

# -- Markdown
myst_enable_extensions = ["dollarmath", "colon_fence", "deflist", "attrs_block", "attrs_inline"]
myst_heading_anchors = 3

# -- Formulas
html_math_renderer = "mathml"

# -- The reference: one page for each public name
autosummary_generate = True
autosummary_ignore_module_all = False
# Names that differ in case alone would be one file on some systems.
autosummary_filename_map = {
    "dcfw.align.pairs": "dcfw.align.pairs-function",
    "dcfw.align.trial": "dcfw.align.trial-function",
}
autodoc_typehints = "none"  # the docstrings say what an argument may be
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
TORCH = importlib.util.find_spec("torch") is not None
if not TORCH:  # the pages of dcfw.torch still build
    import dcfw.align.estimator  # scikit-learn is loaded before there is a torch that is none

    autodoc_mock_imports = ["torch"]

# -- The gallery
sphinx_gallery_conf = {
    "examples_dirs": ["../examples", "../tutorials"],
    "gallery_dirs": ["gallery", "tutorials"],
    "filename_pattern": r"/plot_",
    # These pages need PyTorch.
    "ignore_pattern": r"__init__\.py" if TORCH else r"(__init__|plot_constrained_network|plot_5_torch)\.py",
    "within_subsection_order": "gallery_order.ByFamily",
    "abort_on_example_error": True,
    "parallel": True,
    "image_scrapers": ("matplotlib",),
    "reset_modules": ("matplotlib",),
    "doc_module": ("dcfw",),
    "reference_url": {"dcfw": None},
    "backreferences_dir": "api/generated/backreferences",
    "download_all_examples": False,
    "show_memory": False,
    "min_reported_time": 1e9,
    "show_signature": False,
    "write_computation_times": False,
}

# -- The look
html_theme = "pydata_sphinx_theme"
html_title = "dcfw"
html_logo = "_static/logo.svg"
html_favicon = "_static/icon.svg"
html_static_path = ["_static"]
html_css_files = ["dcfw.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"image_light": "_static/logo.svg", "image_dark": "_static/logo-dark.svg", "alt_text": "dcfw"},
    "header_links_before_dropdown": 7,
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "show_prev_next": True,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "tango",
    "pygments_dark_style": "monokai",
}
html_sidebars = {
    page: [] for page in ("index", "why", "choose", "mathematics", "start", "extend", "migrate/*")
}
