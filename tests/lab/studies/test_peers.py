"""The script that asks other tools: what they get, and what becomes of their answer."""

import sys

import numpy as np
import pytest

from swerve.types import Recording
from swerve_lab.studies import peers
from swerve_lab.studies import peers_side as side


def recordings(*lengths):
    rng = np.random.default_rng(0)
    return [Recording(rng.normal(5.0, 2.0, size=(length, 2)), s=np.zeros(length, int)) for length in lengths]


@pytest.fixture
def fake(tmp_path):
    """Stands in for the other environment's Python: answers with the sign of the first channel."""
    answer = tmp_path / "fake.py"
    answer.write_text(
        f"#!{sys.executable}\n"
        "import sys\n"
        "import numpy as np\n"
        "with np.load(sys.argv[2]) as asked:\n"
        "    assert str(asked['tool']) == 'hmmlearn' and asked['lengths'].sum() == len(asked['x'])\n"
        "    assert not any('label' in name or name == 's' for name in asked)\n"
        "    np.savez(sys.argv[3], labels=asked['x'][:, 0] > 0, version='1.0')\n"
    )
    answer.chmod(0o755)
    return answer


def test_a_tool_gets_standardised_channels_and_no_labels(fake):
    training, test = recordings(40, 60), recordings(30, 20)
    labels, version = peers.ask(fake, "hmmlearn", training, test, False, 2, 0)
    assert version == "1.0"
    assert [len(one) for one in labels] == [30, 20]
    mean = np.concatenate([one.x for one in training]).mean(axis=0)
    for found, one in zip(labels, test, strict=True):
        np.testing.assert_array_equal(found, one.x[:, 0] > mean[0])


def test_differences_stand_beside_the_channels():
    x = np.cumsum(np.ones((10, 2)), axis=0)
    assert peers.features(x, True).shape == (10, 4)
    assert peers.features(x, False) is x


def test_segments_are_clustered_by_how_they_look():
    x = np.concatenate([np.zeros((30, 1)), np.ones((30, 1)) * 9, np.zeros((30, 1))])
    question = {"x": x, "lengths": np.array([90]), "regimes": 2, "restarts": 2, "seed": 0}
    labels = side.cluster_segments(question, lambda x: [30, 60, 90])
    assert (labels[:30] == labels[60:]).all() and labels[0] != labels[40]


def test_the_script_reads_and_writes_files(tmp_path, monkeypatch):
    monkeypatch.setitem(side.TOOLS, "hmmlearn", lambda question: np.arange(len(question["x"])))
    np.savez(tmp_path / "in.npz", tool="hmmlearn", x=np.zeros((5, 1)))
    side.main(str(tmp_path / "in.npz"), str(tmp_path / "out.npz"))
    with np.load(tmp_path / "out.npz") as answer:
        assert answer["labels"].tolist() == [0, 1, 2, 3, 4] and str(answer["version"])
