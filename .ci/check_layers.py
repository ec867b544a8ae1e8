"""Check that imports only go down the list of rooms and not sideways, in Python and in Cython."""

import re
import sys
from pathlib import Path

# From top to bottom; rooms of one row are on the same level. `problems` and `solvers` are modules with public names.
FLOORS = [
    ["cli"],
    ["display", "dask"],
    ["estimators"],
    ["problems", "solvers"],
    ["svm", "ball", "sdp"],
    ["game"],
    ["kernels"],
    ["engine"],
    ["data"],
    ["core"],
]
# The same for the rooms within svm: the solvers are above the files that all of them share.
INSIDE_SVM = [["svm/linear", "svm/kernel"], ["svm"]]
# Exceptions: `plot()` of a trace and of a path, and `report()` of a classifier, import `display` when they are called.
ALLOWED = {
    ("engine/trace.py", "display"),
    ("estimators/path.py", "display"),
    ("estimators/base.py", "display"),
    ("estimators/cross_validated.py", "display"),
}

IMPORT = re.compile(r"^\s*(?:from\s+maxmargin\.([\w.]+)\s+c?import|c?import\s+maxmargin\.([\w.]+))", re.MULTILINE)

package = Path(__file__).parents[1] / "src" / "maxmargin"


def floor_of(room: str, floors: list[list[str]]) -> int:
    return next(k for k, rooms in enumerate(floors) if room in rooms)


def room_within_svm(path: str) -> str:
    return "/".join(path.split("/")[:2]) if path.startswith(("svm/linear/", "svm/kernel/")) else "svm"


def wrong_way(importer: str, imported: str) -> bool:
    """Whether a file imports from a room above its own or on the same level; both files are paths without a suffix."""
    rooms = importer.split("/")[0], imported.split("/")[0]
    floors = FLOORS
    if rooms == ("svm", "svm"):
        rooms, floors = (room_within_svm(importer), room_within_svm(imported)), INSIDE_SVM
        if importer in ("svm/auto",):  # it imports the solvers that it chooses from; they do not import it
            return False
    return rooms[0] != rooms[1] and floor_of(rooms[1], floors) <= floor_of(rooms[0], floors)


def main() -> None:
    wrong = []
    for path in sorted(package.glob("*/**/*")):
        if path.suffix not in (".py", ".pyx", ".pxd", ".pyi"):
            continue
        name = path.relative_to(package).as_posix()
        for match in IMPORT.finditer(path.read_text()):
            target = (match[1] or match[2]).replace(".", "/")
            if wrong_way(name.rsplit(".", 1)[0], target) and (name, target.split("/")[0]) not in ALLOWED:
                wrong.append(f"src/maxmargin/{name} imports {target}, which is above it or on the same level")
    if wrong:
        listed = "; ".join(" ".join(rooms) for rooms in FLOORS)
        sys.exit(
            "\n".join(
                [*wrong, f"Imports only go down this list; rooms on the same level do not import each other: {listed}"]
            )
        )
    print("import layers: fine")


if __name__ == "__main__":
    main()
