"""What `import maxmargin` costs."""

import subprocess
import sys


def test_nothing_but_scikit_learn_is_imported() -> None:
    """Drawing, tables, the command and their packages are imported when they are used."""
    code = """
import sys
import sklearn.svm
before = set(sys.modules)
import maxmargin
print(*{name.partition(".")[0] for name in set(sys.modules) - before})
"""
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert set(loaded) <= {"maxmargin", *sys.stdlib_module_names}
