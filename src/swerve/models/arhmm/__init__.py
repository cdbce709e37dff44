"""Autoregressive HMM by EM: the first model to try, the row to beat, the seed of restarts."""

from swerve.models.arhmm.fitting import ArHmmFit, ArHmmOptions, fit, fit_from_labels
from swerve.models.arhmm.gaps import bridged
from swerve.models.arhmm.model import (
    ArHmm,
    bridged_likelihood,
    log_evidence,
    log_likelihood,
    seen_in_part,
    smooth,
    viterbi,
)
from swerve.models.arhmm.noise import Covariance
from swerve.models.arhmm.witnesses import joint_errors

__all__ = [
    "ArHmm",
    "ArHmmFit",
    "ArHmmOptions",
    "Covariance",
    "bridged",
    "bridged_likelihood",
    "fit",
    "fit_from_labels",
    "joint_errors",
    "log_evidence",
    "log_likelihood",
    "seen_in_part",
    "smooth",
    "viterbi",
]
