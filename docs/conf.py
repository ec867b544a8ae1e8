"""The documentation site: `make docs` builds it into build/site.

The source folder is the root of the checkout, so that a link from one page to another leads to the same place here
and on GitHub. Pages stay plain Markdown: what only the site needs is added here while Sphinx reads them.
"""

import inspect
import re
from importlib import import_module
from pathlib import Path, PurePosixPath
from posixpath import normpath

ROOT = Path(__file__).parents[1]

project = "maxmargin"
author = "The maxmargin developers"
release = re.search(r'^version = "(.*)"$', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE)[1]

root_doc = "docs/index"
include_patterns = ["docs/**", "CHANGELOG.md", "CONTRIBUTING.md", "benchmarks/README.md"]
exclude_patterns = [".*", "build", "dist", "examples", "src", "tests", "docs/static", "docs/templates"]
extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx_gallery.gen_gallery",
    "sphinx-mathjax-offline",
    "sphinxcontrib.mermaid",
]
# Pages of the papers' experiments are generated, and may not be there yet.
suppress_warnings = ["toc.empty_glob"]

html_theme = "furo"
html_title = f"maxmargin {release}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_extra_path = ["static/index.html"]
html_copy_source = False
html_show_copyright = False

myst_enable_extensions = ["dollarmath"]
myst_fence_as_directive = ["mermaid"]
myst_heading_anchors = 3

templates_path = [str(ROOT / "docs" / "templates")]
default_role = "literal"
autodoc_typehints = "none"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

sphinx_gallery_conf = {
    "examples_dirs": str(ROOT / "examples"),
    "gallery_dirs": str(ROOT / "docs" / "gallery"),
    "filename_pattern": r"\.py$",
    "ignore_pattern": r"adult\.py$",  # the demonstration, which trains scikit-learn's SVC, takes a minute
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 1e9,  # seconds would change with each build
    "write_computation_times": False,
    "remove_config_comments": True,
}


# Pages


def sections(page: str) -> dict[str, list[tuple[str, str]]]:
    """The links of a page's lists, text and target, by heading: the site's navigation."""
    found: dict[str, list[tuple[str, str]]] = {}
    for section in page.split("\n## ")[1:]:
        heading = section.splitlines()[0]
        found[heading] = re.findall(r"^- \[([^]]*)\]\(([^)#]+)\)", section, re.MULTILINE)
    return found


def toctree(entries: list[str], caption: str = "") -> str:
    options = [":hidden:", ":glob:", *([f":caption: {caption}"] if caption else [])]
    return "\n".join(["", "```{toctree}", *options, "", *entries, "```", ""])


def read_source(app, name: str, content: list[str]) -> None:
    """Add what the site needs, and GitHub does not know, to a page."""
    if name.startswith(("docs/api/", "docs/gallery/")):
        return
    text = re.sub(r"\$`(.+?)`\$", r"{math}`\1`", content[0])  # how GitHub writes formulas
    text = text.replace("](../examples)", "](gallery/index.rst)")  # the folder and the programs are pages here
    text = re.sub(r"\]\(\.\./examples/(\w+)\.py\)", r"](gallery/\1.rst)", text)
    if name == root_doc:
        text += "".join(toctree([entry(*link) for link in links], caption) for caption, links in sections(text).items())
    if name == "docs/api":
        text += toctree([f"/docs/api/{module}" for module in MODULES])
    if name == "docs/papers/index":
        text += toctree(["*"])  # a page for each experiment that was run
    content[0] = text


def entry(text: str, link: str) -> str:
    """What a link of the start page is in the navigation."""
    return f"{text} </{PurePosixPath(normpath(f'docs/{link}')).with_suffix('')}>"


# The reference

MODULES = {
    "maxmargin": "Estimators, and what most programs need",
    "maxmargin.estimators": "What estimators return and raise",
    "maxmargin.dask": "Estimators on a Dask cluster",
    "maxmargin.display": "Pictures, and reports of models",
    "maxmargin.data": "Files, stores and features on demand",
    "maxmargin.problems": "Problems, without scikit-learn",
    "maxmargin.solvers": "Solvers, and how to run them",
    "maxmargin.core": "Primitives for authors of solvers",
}


def reference() -> dict[str, str]:
    """A page for each public module, of all names in its `__all__`. What several modules export is on the first."""
    seen: dict[int, str] = {}
    pages = {}
    for module, title in MODULES.items():
        exports = import_module(module)
        names: dict[str, list[str]] = {"Classes": [], "Functions": [], "Constants": [], "Elsewhere": []}
        for name in sorted(exports.__all__, key=str.lower):
            thing = getattr(exports, name)
            if seen.setdefault(id(thing), module) != module:
                names["Elsewhere"].append(f":obj:`{seen[id(thing)]}.{name}`")
            elif inspect.isclass(thing):
                names["Classes"].append(name)
            else:
                names["Functions" if callable(thing) else "Constants"].append(name)
        heading = f"{module}: {title[0].lower()}{title[1:]}"
        lines = [heading, "=" * len(heading), "", f".. currentmodule:: {module}", ""]
        for kind in ("Classes", "Functions", "Constants"):
            if names[kind]:
                lines += [kind, "-" * len(kind), ""]
                lines += [".. autosummary::", "   :toctree: generated", "   :nosignatures:", ""]
                lines += [*(f"   {name}" for name in names[kind]), ""]
        if names["Elsewhere"]:
            lines += ["Also here: " + ", ".join(names["Elsewhere"]) + ".", ""]
        pages[module] = "\n".join(lines)
    return pages


def write_reference(app, config) -> None:
    folder = ROOT / "docs" / "api"
    folder.mkdir(exist_ok=True)
    for module, text in reference().items():
        page = folder / f"{module}.rst"
        if not page.exists() or page.read_text(encoding="utf-8") != text:  # what did not change is not built again
            page.write_text(text, encoding="utf-8")


def skip_member(app, kind, name: str, member, skip: bool, options) -> bool | None:
    """Leave out what classes inherit from elsewhere, as `set_fit_request` of scikit-learn."""
    home = getattr(getattr(member, "fget", member), "__module__", None)
    return True if home is not None and not str(home).startswith("maxmargin") else None


def escape_summary(app, kind, name: str, thing, options, lines: list[str]) -> None:
    """The first line of a docstring is plain text: |w| is a norm there, and no substitution of reStructuredText."""
    if lines:
        parts = lines[0].split("`")
        parts[::2] = [re.sub(r"(?<!\\)\|", r"\|", part) for part in parts[::2]]
        lines[0] = "`".join(parts)


def setup(app) -> None:
    app.connect("autodoc-process-docstring", escape_summary, priority=400)  # before numpydoc
    app.connect("config-inited", write_reference)
    app.connect("source-read", read_source)
    app.connect("autodoc-skip-member", skip_member)
