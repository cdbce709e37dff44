"""AR-HMMs as proposals: what they say of the training windows, and where they keep silent."""

import jax
import numpy as np

from swerve.data.windows import to_frames
from swerve.learning.proposals import arhmm as proposer
from swerve.models.arhmm.search import Candidate
from swerve.types import Recording


def test_how_far_the_next_switch_is():
    labels = np.array([[0, 0, 1, 0, -1], [0, 0, 0, 2, 2]])
    never = np.inf
    assert proposer.frames_to_next_switch(labels).tolist() == [[2, 1, 1, never, never], [3, 2, 1, never, never]]


def test_guides_are_silent_before_a_switch_for_as_many_frames_as_they_read(monkeypatch):
    labels = np.array([[0, 0, 0, 0, 1, 2, 2, 2, 2, 1]])
    monkeypatch.setattr(proposer, "labels_of", lambda model, frames: labels)
    monkeypatch.setattr(proposer, "responsibilities", lambda model, frames: jax.nn.one_hot(labels, 3))
    frames = to_frames([Recording(np.zeros((labels.size, 1)))])
    told = np.asarray(proposer._silent_before_switches(Candidate(None, 0.0, 2, 0, labels), frames))
    speaks = told.sum(axis=-1) > 0
    assert speaks[0].tolist() == [True, True, False, False, False, True, True, False, False, True]
    assert (told.argmax(axis=-1) == labels)[speaks].all()
