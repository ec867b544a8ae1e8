"""Imports only go down the house, in Python and in Cython alike."""

import re
import sys
from pathlib import Path

LAYERS = ["cli", "display", "estimators", "solvers", "problems", "data", "core"]
# `trace_.plot()` is a courtesy on the way up, imported only when it is called.
ALLOWED = {("solvers/trace.py", "display")}

IMPORT = re.compile(r"^\s*(?:from\s+maxmargin\.(\w+)[\w.]*\s+c?import|c?import\s+maxmargin\.(\w+))", re.MULTILINE)

package = Path(__file__).parents[1] / "src" / "maxmargin"
wrong = []
for path in sorted(package.glob("*/**/*")):
    if path.suffix not in (".py", ".pyx", ".pxd", ".pyi"):
        continue
    name = path.relative_to(package).as_posix()
    room = name.split("/")[0]
    for match in IMPORT.finditer(path.read_text()):
        target = match[1] or match[2]
        upward = LAYERS.index(target) < LAYERS.index(room)
        if upward and (name, target) not in ALLOWED:
            wrong.append(f"src/maxmargin/{name} imports from {target}/, which is above {room}/")
if wrong:
    sys.exit("\n".join([*wrong, f"Imports only go down this list: {', '.join(LAYERS)}"]))
print("import layers: fine")
