"""What the README shows works as it stands."""

import re
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"


@pytest.mark.skipif(not README.exists(), reason="the README is not part of an installed package")
def test_every_python_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert len(blocks) >= 3
    exec(compile("\n".join(blocks), str(README), "exec"), {})
    printed = capsys.readouterr().out
    assert "of the best possible at this slack" in printed
    assert "of the best possible at this C\nnewton tol\n" in printed
