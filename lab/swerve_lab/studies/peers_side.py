"""The other tools' side of swerve_lab.studies.peers, run in an environment of their own: peers_side.py IN.npz OUT.npz

Reads `tool`, `train_x` and `x` (frames of all recordings one below the other), `train_lengths`, `lengths`, `regimes`,
`restarts` and `seed`; writes `labels` of all frames of `x` and the tool's `version`. True labels are not among
what it reads.
"""

import sys
from importlib.metadata import version
from itertools import pairwise

import numpy as np

SHORTEST = 10  # frames of a segment
PACKAGES = {"hmmlearn": "hmmlearn", "ruptures": "ruptures", "clasp": "claspy"}


def hmmlearn(question) -> np.ndarray:
    """A Gaussian HMM with diagonal covariances: the restart with the best likelihood, most probable path."""
    from hmmlearn.hmm import GaussianHMM

    fits = []
    for restart in range(int(question["restarts"])):
        seed = 1000 * int(question["seed"]) + restart
        model = GaussianHMM(int(question["regimes"]), "diag", n_iter=100, min_covar=1e-4, random_state=seed)
        model.fit(question["train_x"], question["train_lengths"])
        fits.append((model.score(question["train_x"], question["train_lengths"]), restart, model))
    best = max(fits, key=lambda one: one[:2])[2]
    return best.predict(question["x"], question["lengths"])


def ruptures(question) -> np.ndarray:
    """PELT with a Gaussian's mean and covariance per segment and the BIC as penalty, then k-means of segments."""
    import ruptures as rpt

    def ends(x: np.ndarray) -> list[int]:
        channels = x.shape[1]
        numbers = channels + channels * (channels + 1) / 2
        shortest = max(SHORTEST, channels + 1)
        return rpt.Pelt(model="normal", min_size=shortest, jump=2).fit(x).predict(pen=numbers * np.log(len(x)))

    return cluster_segments(question, ends)


def clasp(question) -> np.ndarray:
    """ClaSP with its own choice of window and number of changes, then k-means of segments."""
    from claspy.segmentation import BinaryClaSPSegmentation

    def ends(x: np.ndarray) -> list[int]:
        found = BinaryClaSPSegmentation().fit_predict(x)
        return [*sorted(int(one) for one in found), len(x)]

    return cluster_segments(question, ends)


def cluster_segments(question, ends) -> np.ndarray:
    """k-means of the mean and the standard deviation of every segment's channels, long segments counting more."""
    from sklearn.cluster import KMeans

    features, lengths = [], []
    for x in np.split(question["x"], np.cumsum(question["lengths"])[:-1]):
        edges = [0, *ends(x)]
        for begin, stop in pairwise(edges):
            features.append(np.concatenate([x[begin:stop].mean(axis=0), x[begin:stop].std(axis=0)]))
            lengths.append(stop - begin)
    regimes = min(int(question["regimes"]), len(features))
    k_means = KMeans(regimes, n_init=int(question["restarts"]), random_state=int(question["seed"]))
    found = k_means.fit_predict(np.array(features), sample_weight=np.array(lengths, float))
    return np.repeat(found, lengths)


TOOLS = {"hmmlearn": hmmlearn, "ruptures": ruptures, "clasp": clasp}


def main(source: str, target: str) -> None:
    with np.load(source, allow_pickle=False) as stored:
        question = dict(stored)
    tool = str(question["tool"])
    np.savez(target, labels=TOOLS[tool](question), version=version(PACKAGES[tool]))


if __name__ == "__main__":
    main(*sys.argv[1:])
