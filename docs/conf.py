"""Sphinx configuration. Builds without a network, runs every code cell and example, fails on warnings."""

import os
import sys
from pathlib import Path

import dpbandits

# Small screens of a shell in a page; commands of this environment.
os.environ["COLUMNS"] = "100"
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])

# Extensions, what notebooks import from `pages`, and the package `reproduction`.
_PATHS = [str(Path(__file__).parent / "_ext"), str(Path(__file__).parents[1])]
sys.path[:0] = _PATHS
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [*_PATHS, os.environ.get("PYTHONPATH")]))

# Small matrices: threads inside one product cost more than they save. Inherited by notebooks.
os.environ.setdefault("OMP_NUM_THREADS", "1")

project = "dpbandits"
author = "The dpbandits developers"
copyright = author
version = release = dpbandits.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.doctest",
    "sphinx.ext.napoleon",
    "docstrings",
    "formulas",
    "statements",
    "demo_page",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "auto_examples/*.ipynb", "jupyter_execute"]

# -- text -----------------------------------------------------------------------------------------

smartquotes = False  # --help is an option

default_role = "code"  # docstrings put code between single backticks
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

nitpicky = True
# Signatures name these callables; they are described where they are used.
nitpick_ignore = [
    ("py:class", "dpbandits.lab.worlds.functions.CandidateLaw"),
    ("py:class", "dpbandits.lab.worlds.functions.FunctionOptions"),
    ("py:class", "dpbandits.lab.worlds.functions.MeanFunction"),
    ("py:class", "dpbandits.audit.attacks.membership.Attackable"),
    ("py:class", "dpbandits.lab.people.study.Compared"),
    ("py:class", "dpbandits._config.Registry"),
    ("py:class", "dpbandits.tables.owners.Owners"),
    ("py:class", "dpbandits.central.logged.contexts.RowsCounted"),
    ("py:class", "dpbandits.central.logged.plan.SumsPlan"),
    ("py:class", "dpbandits.central.logged.source_log.SourceLog"),
    ("py:class", "dpbandits.export.lookups.Lookups"),
    ("py:class", "dpbandits.service.clock.Clock"),
    ("py:class", "dpbandits.central.arm_changes.ArmChange"),
    ("py:class", "dpbandits.central.readout.declared.ToldMetric"),
    ("py:class", "dpbandits.central.readout.reading.ReadoutResult"),
    ("py:class", "dpbandits.models.readout.estimates.Contrast"),
    ("py:class", "dpbandits.central.foresight.Foresight"),
    ("py:class", "Status"),
    ("py:class", "dict[str"),  # a part of an annotation, which Sphinx cuts at its comma
    ("py:class", "str | ~collections.abc.Mapping[str"),  # the same
    ("py:class", "dpbandits.local.contract.gp_spec._Integers"),
    ("py:class", "dpbandits.privacy.rows.noise_laws.Floating"),
    ("py:class", "dpbandits.local.contract.gp_spec.GaussianReports"),
    ("py:class", "dpbandits.tables.device_menu.DeviceMenu"),
    ("py:class", "dpbandits.local.contract.spec.CellReports"),
    ("py:class", "dpbandits.tables.columns.Column"),
    ("py:class", "Column"),
    ("py:class", "dpbandits.central.statement.Setting"),
    ("py:class", "dpbandits.privacy.release_terms.Release"),
    ("py:class", "dpbandits.models.features.maximise.Maximiser"),
    ("py:class", "dpbandits.central.marginals.noise.TableNoise"),
    ("py:class", "dpbandits.central.marginals.noise.VectorNoise"),
    ("py:class", "dpbandits.models.marginals.effects.Effects"),
    ("py:class", "dpbandits.models.marginals.tables.Design"),
    ("py:class", "dpbandits.models.marginals.features.EffectFeatures"),
    ("py:class", "dpbandits.models.marginals.law.Law"),
    ("py:class", "dpbandits.policy.bookkeeping.RoundBook"),
    ("py:class", "dpbandits.service.engines.ServedBandit"),
    ("py:class", "dpbandits.tables.checking.Finding"),
    ("py:class", "fastapi.applications.FastAPI"),
    ("py:class", "starlette.requests.Request"),
    ("py:class", "dpbandits.lab.planning.answers.Apart"),
    ("py:class", "dpbandits.lab.planning.segments.Segments"),
    ("py:class", "SharedServer"),  # loaded where it is used
    ("py:class", "ReportHistogram"),  # loaded where it is used
    ("py:class", "dpbandits.budget.ledger.Contents"),
]
# Other libraries' inventories would need a network.
nitpick_ignore_regex = [
    (r"py:.*", rf"({'|'.join([*sys.stdlib_module_names, 'np', 'numpy'])})\..*"),
    (r"py:.*", r"(ArrayLike|BoolArray|FloatArray|IntArray|Cuts|NDArray|Axes|DataFrame|Figure)"),
    (r"py:class", r"(dpbandits\..*\.)?(_?[A-Z]|[A-Z]\w+T)"),  # what generic classes are generic in
]

# -- API ------------------------------------------------------------------------------------------

autodoc_default_options = {"members": True, "special-members": "__call__"}
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False  # "Returns:" is prose; its first word is not a type
python_use_unqualified_type_names = True
add_module_names = False
# Docstring examples run under pytest; here only what pages mark as doctest.
doctest_test_doctest_blocks = ""

# -- code that runs -------------------------------------------------------------------------------

nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 120
nb_execution_show_tb = True
nb_merge_streams = True
nb_render_markdown_format = "myst"  # the default knows no tables

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "download_all_examples": False,
    "image_scrapers": ("matplotlib", "pictures"),
    "capture_repr": (),
    "show_memory": False,
    "write_computation_times": False,
}

# -- looks ----------------------------------------------------------------------------------------

html_theme = "pydata_sphinx_theme"
html_title = "dpbandits"
html_show_sourcelink = False
html_math_renderer = "mathml"
html_static_path = ["_static"]
html_css_files = ["dpbandits.css"]
html_theme_options = {
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "show_prev_next": True,
}
