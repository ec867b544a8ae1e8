"""A pytest plugin: scikit-learn's own tests of its support vector machines, with our classes in their place.

`make compat` runs them; what is known to fail stands in known_failures.toml with its reason. The run fails where a test
fails that is not listed, where one that is listed passes, and where one that is listed is gone. Tests whose result is a
matter of rounding, and so of the processor, may pass or fail: their group says `rounding = true`.

Many of these tests give `probability=True` only to look at other things as well. Our SVC refuses it; here it takes it
without effect, so that the rest of such a test is run. Without that, 64 more tests would fail.
"""

import tomllib
from pathlib import Path

import pytest
import sklearn.svm

import maxmargin

KNOWN = Path(__file__).with_name("known_failures.toml")


class SVC(maxmargin.SVC):
    """Ours, which takes `probability=True` without effect."""

    _not_offered = {name: value for name, value in maxmargin.SVC._not_offered.items() if name != "probability"}  # noqa: RUF012


def pytest_configure(config):
    sklearn.svm.SVC, sklearn.svm.LinearSVC = SVC, maxmargin.LinearSVC


def pytest_collection_modifyitems(config, items):
    groups = tomllib.loads(KNOWN.read_text())["group"]
    group_of = {test: group for group in groups for test in group["tests"]}
    for item in items:
        name = item.nodeid.rpartition("/")[2]
        if name in group_of:
            group = group_of.pop(name)
            item.add_marker(pytest.mark.xfail(reason=group["reason"], strict=not group.get("rounding", False)))
    if group_of:
        raise pytest.UsageError(f"{KNOWN.name} lists tests that scikit-learn has not: {', '.join(group_of)}")
