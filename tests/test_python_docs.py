"""The snippets of docs/python.md run one after the other as they stand."""

import re

import pytest
import sklearn
from conftest import ROOT

SNIPPETS = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "python.md").read_text(), re.DOTALL)


def test_there_are_snippets_and_all_compile():
    assert len(SNIPPETS) > 5
    for snippet in SNIPPETS:
        compile(snippet, "docs/python.md", "exec")


@pytest.mark.slow
def test_the_snippets_run(capsys):
    names: dict = {}
    with sklearn.config_context():
        for snippet in SNIPPETS:
            exec(compile(snippet, "docs/python.md", "exec"), names)
    assert names["grid"].best_params_ == {"regimes": 2}
    assert names["labels"].shape == (1200,)
    assert "(20, 3, 1)" in capsys.readouterr().out
