"""Optional packages: one line says what to install."""

import sys

import pytest

from maxmargin import LinearSVC
from maxmargin.core.optional import EXTRAS, MissingPackageError, import_optional


@pytest.mark.parametrize("package", EXTRAS)
def test_the_extra_of_a_missing_package_is_named(package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingPackageError) as caught:
        import_optional(package, "this")
    extra = EXTRAS[package]
    assert str(caught.value) == (
        f"this needs {package}, which is not installed: pip install 'maxmargin[{extra}]', or from a clone pip install "
        f"'.[{extra}]'"
    )


def test_a_package_that_is_broken_says_why(tmp_path, monkeypatch):
    (tmp_path / "broken_package.py").write_text("import none_such\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(MissingPackageError, match=r"cannot be imported \(No module named 'none_such'\)"):
        import_optional("broken_package", "this")


def test_a_table_without_pandas(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    trace = LinearSVC().fit([[0.0], [1.0]], [0, 1]).trace_
    with pytest.raises(ImportError, match="a table needs pandas, which is not installed: pip install pandas"):
        trace.to_pandas()
