"""The scikit-learn face: regimes of rows, several sequences stacked one below the other."""

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from swerve import api
from swerve.data.columns import select_columns
from swerve.data.folder import Part
from swerve.data.trees import read_json, write_json
from swerve.data.windows import cut
from swerve.errors import InputError
from swerve.learning.preparation import SHORTEST
from swerve.runs.run import LONGEST_PAST, Run
from swerve.settings import kinds
from swerve.settings.defaults import DEFAULT_FUTURES, DEFAULT_QUANTILES
from swerve.types import Forecast, Recording, Segmentation

SEEDS = 2**31 - 1


class Segmenter(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Finds the regimes in time series.

    X is (rows, columns), an array or a data frame, one frame per row and in the order of time; NaN is a missing value.
    Several sequences lie one below the other. Either `lengths` tells how many rows each has, or `sequence_ids` gives
    every row the name of its sequence; the rows of a sequence must be neighbours. A list of arrays, one per
    sequence, is taken too. Without any of these, X is one sequence. Results have one row for every row of X.

    Parameters are those of `swerve.fit`; None leaves a choice to it. Cross-validation slices `sequence_ids` with the
    rows and hands them to every method once metadata routing is on: `sklearn.set_config(enable_metadata_routing=True)`.
    """

    # Cross-validation and pipelines pass the ids on wherever they may.
    __metadata_request__fit: Mapping[str, Any] = {"sequence_ids": True}
    __metadata_request__predict: Mapping[str, Any] = {"sequence_ids": True}
    __metadata_request__predict_proba: Mapping[str, Any] = {"sequence_ids": True}
    # A pipeline asks after sample_weight whether there is one or not.
    __metadata_request__score: Mapping[str, Any] = {"sequence_ids": True, "sample_weight": None}
    __metadata_request__transform: Mapping[str, Any] = {"sequence_ids": True}

    n_features_in_: int
    feature_names_in_: np.ndarray

    def __init__(
        self,
        regimes: Any = 3,
        *,
        model: Any = None,
        recipe: Any = None,
        restarts: Any = None,
        steps: Any = None,
        random_state: Any = 0,
        settings: Any = (),
    ):
        self.regimes = regimes
        self.model = model
        self.recipe = recipe
        self.restarts = restarts
        self.steps = steps
        self.random_state = random_state
        self.settings = settings

    def fit(self, X: Any, y: Any = None, *, lengths: Any = None, sequence_ids: Any = None) -> "Segmenter":
        """Learns the regimes; y is ignored. Afterwards `run_` is the fitted `swerve.runs.fit.Run`."""
        series = self._series(X, lengths, sequence_ids, fitting=True)
        self.run_: Run = api.fit(
            series,
            _whole("regimes", self.regimes),
            model=self.model,
            recipe=self.recipe,
            restarts=_whole("restarts", self.restarts),
            steps=_whole("steps", self.steps),
            seed=_seed_of(self.random_state),
            settings=tuple(self.settings),
        )
        self.n_regimes_: int = self.run_.regimes
        self._fitted_by_ids = sequence_ids is not None
        self._ends = [cut(one, max(0, len(one) - LONGEST_PAST), len(one)) for one in series]
        return self

    def predict(self, X: Any, *, lengths: Any = None, sequence_ids: Any = None) -> Int[np.ndarray, " rows"]:
        """The regime of every row."""
        return np.concatenate([one.labels for one in self._segment(X, lengths, sequence_ids)])

    def predict_proba(self, X: Any, *, lengths: Any = None, sequence_ids: Any = None) -> Float[np.ndarray, "rows K"]:
        """The probability of every regime in every row."""
        return np.concatenate([one.probabilities for one in self._segment(X, lengths, sequence_ids)])

    def change_points(self, X: Any, *, lengths: Any = None, sequence_ids: Any = None) -> Int[np.ndarray, " changes"]:
        """The rows of X whose regime differs from that of the row before, within a sequence."""
        first, found = 0, []
        for one in self._segment(X, lengths, sequence_ids):
            found.append(first + one.change_points)
            first += len(one.labels)
        return np.concatenate(found)

    def score(self, X: Any, y: Any = None, *, lengths: Any = None, sequence_ids: Any = None) -> float:
        """The bound on log p(X) (for an AR-HMM log p(X) itself) in nats per frame, in the units of X.

        Scores of models with other regimes, restarts or training data are comparable on the same rows.
        """
        check_is_fitted(self)
        if self._fitted_by_ids and lengths is None and sequence_ids is None and not _is_list_of_sequences(X):
            warnings.warn(
                "Segmenter.score got no sequence_ids although fit did, and takes X as one sequence; in cross-validation"
                " use sklearn.set_config(enable_metadata_routing=True).",
                stacklevel=2,
            )
        series = self._series(X, lengths, sequence_ids)
        seen = sum((~np.isnan(one.x)).sum(axis=0) for one in select_columns(series, self.run_.columns))
        change_of_units = seen @ np.log(self.run_.standardizer.scale) / sum(len(one) for one in series)
        return self.run_.score(series) - float(change_of_units)

    def transform(self, X: Any, *, lengths: Any = None, sequence_ids: Any = None) -> Float[np.ndarray, "rows L"]:
        """The posterior mean of the hidden state in every row. A model without hidden states has no such method."""
        series = self._series(X, lengths, sequence_ids)
        return np.concatenate(self.run_.transform(series))

    def fit_transform(self, X: Any, y: Any = None, *, lengths: Any = None, sequence_ids: Any = None) -> Any:
        """`fit`, then `transform` of the same sequences."""
        told = {"lengths": lengths, "sequence_ids": sequence_ids}
        return self.fit(X, y, **told).transform(X, **told)

    def sample(
        self, length: int, count: int = 1, *, random_state: Any = 0
    ) -> tuple[Float[np.ndarray, "rows D"], Int[np.ndarray, " rows"]]:
        """`count` sequences of `length` rows that the model makes up, one below the other, and their regimes.

        Columns that never changed in the fitted data are left out.
        """
        check_is_fitted(self)
        made = self.run_.sample(length, count, seed=_seed_of(random_state))
        return np.concatenate([one.x for one in made]), np.concatenate([one.s for one in made if one.s is not None])

    def forecast(
        self,
        horizon: int,
        X: Any = None,
        *,
        lengths: Any = None,
        sequence_ids: Any = None,
        quantiles: Sequence[float] = DEFAULT_QUANTILES,
        samples: int = DEFAULT_FUTURES,
        random_state: Any = 0,
    ) -> list[Forecast]:
        """How every sequence of X may go on for `horizon` frames; without X, those it was fitted to.

        One `Forecast` per sequence: `probabilities` (horizon, K) of the regimes, `quantiles` (horizon, Q, D) of x.
        """
        check_is_fitted(self)
        if X is None and not self._ends:
            raise InputError("A loaded Segmenter does not hold the rows it was fitted to: give X to go on from.")
        series = self._ends if X is None else self._series(X, lengths, sequence_ids)
        options = {"quantiles": quantiles, "samples": samples, "seed": _seed_of(random_state)}
        return self.run_.forecast(series, horizon, **options)

    def save(self, folder: str | Path) -> None:
        """Keeps the fitted model in a folder, where `swerve segment` and `swerve report` find it too."""
        check_is_fitted(self)
        self.run_.save(Path(folder))
        known = self.get_params() | {"random_state": self.run_.config.seed, "settings": list(self.settings)}
        about = {
            "parameters": {name: int(value) if isinstance(value, Integral) else value for name, value in known.items()},
            "columns": self.n_features_in_,
            "column_names": [str(name) for name in getattr(self, "feature_names_in_", ())],
        }
        write_json(Path(folder) / Part.SEGMENTER, about)

    @classmethod
    def load(cls, folder: str | Path) -> "Segmenter":
        """A saved Segmenter, ready for new rows."""
        fitted, path = api.load(folder), Path(folder) / Part.SEGMENTER
        if not path.is_file():
            raise InputError(f"{folder} holds a run, but no Segmenter saved it: use swerve.load.")
        about = read_json(path)
        loaded = cls(**about["parameters"])
        loaded.run_, loaded.n_regimes_ = fitted, fitted.regimes
        loaded.n_features_in_ = about["columns"]
        if about["column_names"]:
            loaded.feature_names_in_ = np.array(about["column_names"], dtype=object)
        loaded._fitted_by_ids, loaded._ends = False, []
        return loaded

    @property
    def _n_features_out(self) -> int:
        """How many columns `transform` gives."""
        return self.run_.config.model.state_size

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "run_")

    def _segment(self, X: Any, lengths: Any, sequence_ids: Any) -> list[Segmentation]:
        series = self._series(X, lengths, sequence_ids)
        return self.run_.segment(series)

    def _series(self, X: Any, lengths: Any, sequence_ids: Any, *, fitting: bool = False) -> list[Recording]:
        if not fitting:
            check_is_fitted(self)
        if _is_list_of_sequences(X):
            if lengths is not None or sequence_ids is not None:
                raise InputError("A list of sequences needs neither lengths nor sequence_ids.")
            X, lengths = np.concatenate(X), [len(one) for one in X]
        least = SHORTEST if fitting else 1
        checks = {"dtype": float, "ensure_all_finite": "allow-nan", "ensure_min_samples": least}
        rows = np.asarray(validate_data(self, X, reset=fitting, **checks))
        columns = tuple(str(name) for name in getattr(self, "feature_names_in_", ()))
        borders, names = _sequences(len(rows), lengths, sequence_ids)
        pairs = pairwise(borders)
        return [Recording(rows[a:b], columns=columns, name=name) for (a, b), name in zip(pairs, names, strict=True)]


def _has_states(segmenter: Segmenter) -> bool:
    """Only models with hidden states can transform."""
    fitted = getattr(segmenter, "run_", None)
    if fitted is not None:
        return fitted.offers(kinds.STATES)
    undecided = segmenter.model in (None, kinds.AUTO)
    return undecided or kinds.STATES in kinds.find(segmenter.model).offers


# Not as decorators: scikit-learn wraps both for `set_output` when the class is made, and would hide them.
for _method in ("transform", "fit_transform"):
    setattr(Segmenter, _method, available_if(_has_states)(getattr(Segmenter, _method)))


def _is_list_of_sequences(X: Any) -> bool:
    return isinstance(X, list | tuple) and bool(X) and all(isinstance(one, np.ndarray) and one.ndim == 2 for one in X)


def _sequences(rows: int, lengths: Any, ids: Any) -> tuple[list[int], list[str]]:
    """Where each sequence begins, closed by the number of rows, and what they are called."""
    if lengths is not None and ids is not None:
        raise InputError("Give lengths or sequence_ids, not both.")
    if ids is not None:
        return _by_ids(rows, np.asarray(ids))
    counts = np.asarray([rows] if lengths is None else lengths)
    if counts.ndim != 1 or counts.dtype.kind not in "iu" or (counts < 1).any() or counts.sum() != rows:
        raise InputError(f"lengths must be whole numbers of at least 1 that add up to the {rows} rows of X.")
    return [0, *np.cumsum(counts).tolist()], [str(i) for i in range(len(counts))]


def _by_ids(rows: int, ids: np.ndarray) -> tuple[list[int], list[str]]:
    if ids.shape != (rows,):
        raise InputError(f"sequence_ids must hold one name for each of the {rows} rows of X, not {ids.shape}.")
    begins = [0, *(np.flatnonzero(ids[1:] != ids[:-1]) + 1).tolist()]
    names = [str(ids[row]) for row in begins]
    for name, times in Counter(names).items():
        if times > 1:
            raise InputError(f"The rows of sequence '{name}' are no neighbours: sort X by sequence, then by time.")
    return [*begins, rows], names


def _seed_of(random_state: Any) -> int:
    """A whole number is the seed itself; whatever else scikit-learn takes draws one."""
    if isinstance(random_state, Integral):
        return int(random_state)
    return int(check_random_state(random_state).randint(SEEDS))


def _whole(name: str, value: Any) -> Any:
    """NumPy's whole numbers, which a grid may hold, as Python's. For the regimes there is a word, too."""
    if value is None or (name == "regimes" and isinstance(value, str)):
        return value
    if isinstance(value, Integral):
        return int(value)
    raise InputError(f"{name} must be a whole number, not {value!r}.")
