"""Virtual environments for the peers: created with pip, and asked for the versions that they have.

    python -m benchmarks.arena.environments .venv-peers

A package that cannot be installed is left out, and the reason is kept.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

FAILED = "failed.json"  # in the folder of the environments: why packages are missing


@dataclass(frozen=True)
class Environment:
    """Packages that are installed together; `base` is installed first, as some packages are built with it."""

    name: str
    packages: tuple[str, ...]
    base: tuple[str, ...] = ()
    options: tuple[str, ...] = ()


ENVIRONMENTS = (
    Environment(
        "current",
        (
            "scikit-learn",
            "scikit-learn-intelex",
            "libsvm-official",
            "liblinear-official",
            "snapml",
            "skglm",
            "cyanure",
            "vowpalwabbit",
        ),
    ),
    Environment(
        "numpy1",
        ("sklearn-contrib-lightning", "liquidSVM"),
        ("numpy<2", "scipy<1.13", "scikit-learn<1.5", "Cython<3", "setuptools<65", "wheel"),
        ("--no-build-isolation",),
    ),
)
PACKAGES = tuple(package for environment in ENVIRONMENTS for package in environment.packages)

PROBE = """
import json, sys
from importlib.metadata import PackageNotFoundError, version
found = {}
for package in sys.argv[1:]:
    try:
        found[package] = version(package)
    except PackageNotFoundError:
        pass
print(json.dumps(found))
"""


@dataclass(frozen=True)
class Installed:
    """The interpreter that has a package, and the version."""

    python: str
    version: str


def make(folder: Path, environments: Iterable[Environment] = ENVIRONMENTS) -> dict[str, str]:
    """Create the environments in a folder; return why packages could not be installed, which is also kept there."""
    failed: dict[str, str] = {}
    for environment in environments:
        home = folder / environment.name
        subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
        if environment.base:
            # If this fails, the packages fail too, and their errors are kept.
            install(python_of(home), environment.base)
        for package in environment.packages:
            print(f"{environment.name}: {package}", flush=True)
            if reason := install(python_of(home), [*environment.options, package]):
                failed[package] = reason
    (folder / FAILED).write_text(json.dumps(failed, indent=1))
    return failed


def python_of(home: Path) -> str:
    return str(home / "bin" / "python")


def install(python: str, what: Sequence[str]) -> str:
    """Install with pip; return the reason if that fails, else an empty string."""
    done = subprocess.run([python, "-m", "pip", "install", *what], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else reason(done.stderr)


def reason(errors: str) -> str:
    """The last error message of pip, without file paths."""
    told = re.findall(r"^\s*(?:ERROR|error): (.+)$", errors, re.MULTILINE)
    return "pip: " + re.sub(r"\S*/\S*", "...", told[-1] if told else "failed without a message")[:200]


def pythons_in(folder: Path) -> list[str]:
    """The interpreters of the environments in a folder."""
    homes = [folder / environment.name for environment in ENVIRONMENTS]
    return [python_of(home) for home in homes if Path(python_of(home)).exists()]


def reasons_in(folder: Path) -> dict[str, str]:
    """Why packages could not be installed in a folder."""
    file = folder / FAILED
    return json.loads(file.read_text()) if file.exists() else {}


def installed(pythons: Iterable[str], packages: Sequence[str]) -> dict[str, Installed]:
    """For each package, the first of these interpreters that has it; packages that none has are left out."""
    found: dict[str, Installed] = {}
    for python in pythons:
        answer = subprocess.run([python, "-c", PROBE, *packages], capture_output=True, text=True, check=True)
        versions: Mapping[str, str] = json.loads(answer.stdout)
        found = {package: Installed(python, version) for package, version in versions.items()} | found
    return found


if __name__ == "__main__":
    for package, why in make(Path(sys.argv[1])).items():
        print(f"{package} is left out: {why}")
