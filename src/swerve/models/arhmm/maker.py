"""Builds AR-HMMs, and finds them by a search of their own."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from jaxtyping import Float

from swerve.choosing.trust import Warned
from swerve.inference.frames import Frames, Key
from swerve.models.arhmm.model import ArHmm, blank
from swerve.models.arhmm.noise import Covariance
from swerve.models.arhmm.search import (
    Candidate,
    fit_candidates,
    most_agreeing,
    straddles,
    window_likelihoods,
    with_consensus,
)
from swerve.models.model import Found, Maker, Shape
from swerve.settings.sections import Config


class ArHmmMaker(Maker):
    """AR-HMMs are fitted by EM, with every number of lags and from every start."""

    def build(self, config: Config, shape: Shape, *, stickiness, allowed, key: Key) -> ArHmm:
        return self.blank(config, shape, {"lags": max(config.arhmm.lags)})

    def blank(self, config: Config, shape: Shape, facts: Mapping[str, Any]) -> ArHmm:
        return blank(
            config.model.regimes,
            shape.channels,
            facts["lags"],
            Covariance(config.arhmm.covariance),
            features=facts.get("features") or 0,
            temperature=config.arhmm.temperature(shape.channels),
        )

    def search(
        self,
        training: Frames,
        held_out: Frames,
        config: Config,
        *,
        key: Key,
        unseen: bool = False,
        on_note: Callable[[str], None] = lambda note: None,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> Found | None:
        """The most trustworthy first, and those that read the same.

        Where the settings want a consensus, it comes first; with `unseen` its lags alone are those of the consensus.
        """
        every, settings = fit_candidates(
            training,
            held_out,
            config.arhmm,
            regimes=config.model.regimes,
            key=key,
            on_note=on_note,
            should_stop=should_stop,
        )
        if not every:
            return None
        together = settings.consensus
        group = every if not together else most_agreeing(every)
        group = [one for one in group if (one.lags, one.features) == (group[0].lags, group[0].features)]
        windows = [_windows(one, held_out) for one in group]
        best = group[0]
        if together and not unseen:
            group = [with_consensus(every, training, held_out, settings)[0], *group]
            windows = [windows[0], *windows]
        settled = {"as_one_from": 0.0, **({"lags": (best.lags,)} if together else {})}
        return Found(
            [one.model for one in group],
            windows,
            [one.labels[one.labels >= 0] for one in group],
            straddles(group),
            dataclasses.replace(config, arhmm=settings),
            dataclasses.replace(config, arhmm=dataclasses.replace(settings, **settled)),
        )

    def like(self, config: Config, model: ArHmm) -> Config:
        """The lags and features of the model alone."""
        same = {"lags": (model.lags,), "features": (model.features,), "as_one_from": 0.0}
        return dataclasses.replace(config, arhmm=dataclasses.replace(config.arhmm, **same))

    def remarks(self, asked: Config, used: Config) -> tuple[Warned, ...]:
        if not used.arhmm.channels_as_one or asked.arhmm.channels_as_one:
            return ()
        return (
            Warned(
                "The channels of these recordings err together, so all of a frame count as one witness of its regime.",
                "Nothing to do; --set arhmm.as_one_from=0 counts each on its own.",
            ),
        )


def _windows(candidate: Candidate, frames: Frames) -> Float[np.ndarray, " N"]:
    return np.asarray(window_likelihoods(candidate.model, frames), float)


MAKER = ArHmmMaker()
