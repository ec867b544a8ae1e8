"""Install the sdist and the wheel in dist/, each in a fresh environment, and run the tests from there."""

import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

root = Path(__file__).parents[1]
packages = sorted((root / "dist").glob("maxmargin-*.tar.gz")) + sorted((root / "dist").glob("maxmargin-*.whl"))
if len(packages) != 2:
    sys.exit(f"expected one sdist and one wheel in dist/, found {[p.name for p in packages]}: run `make package`")
for package in packages:
    with tempfile.TemporaryDirectory() as folder:
        print(f"--- {package.name}", flush=True)
        venv.create(Path(folder) / "venv", with_pip=True)
        python = Path(folder) / "venv" / "bin" / "python"
        subprocess.run([python, "-m", "pip", "install", "--quiet", f"{package}[test]"], check=True)
        # Copy the tests only, so that they import the installed package and not the sources.
        shutil.copytree(root / "tests", Path(folder) / "tests")
        for name in ("pyproject.toml", "CONTRIBUTING.md"):
            shutil.copy(root / name, folder)
        subprocess.run([python, "-m", "pytest", "-q", "-n", "2", "tests"], cwd=folder, check=True)
