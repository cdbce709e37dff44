"""A guide adds its nats to the frames that follow it: so every system can be started from the truth."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from swerve.inference.frames import Frames
from swerve.models.model import Knobs
from swerve_lab.rivals import compile, kvae, rslds, svae
from swerve_lab.rivals.shape import Shape

K, T, D, PADDED = 2, 6, 2, 2
SHAPE = Shape(
    regimes=K,
    state_size=2,
    channels=D,
    controls=0,
    dynamics_hidden=(4,),
    emission_hidden=(),
    embedding_hidden=(),
    encoder_size=3,
    causal_size=3,
    dynamics_noise_start=0.3,
    dynamics_noise_floor=1e-7,
    emission_noise_start=0.2,
    emission_noise_floor=1e-4,
    stickiness=0.0,
)
KEY = jax.random.key(0)
SYSTEMS = {
    "compile": compile.build(compile.CompileOptions(segments=3), SHAPE, key=KEY),
    "kvae": kvae.build(kvae.KvaeOptions(network_size=3), SHAPE, key=KEY),
    "rslds": rslds.build(rslds.RsldsOptions(rounds=2), SHAPE, recurrent=True, key=KEY),
    "slds-em": rslds.build(rslds.RsldsOptions(rounds=2), SHAPE, recurrent=False, key=KEY),
    "svae": svae.build(svae.SvaeOptions(), SHAPE, key=KEY),
}
Q_IS_FREE_OF_THE_GUIDE = ("compile", "kvae")


@jax.jit
def terms(system, nats):
    """The last frames are padding, in which a guide may say anything."""
    x = jnp.asarray(np.random.default_rng(1).normal(size=(T, D)), jnp.float32)
    frames = Frames(x, jnp.ones((T, D), bool), jnp.arange(T) < T - PADDED, jnp.zeros((T, 0)))
    guide = jnp.eye(K)[jnp.arange(T) // 2 % K].at[-PADDED:].set(1e6)
    return system.terms(frames, Knobs(guidance=nats), guide, key=KEY)


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_guide_is_worth_its_nats_in_the_frames_that_follow_it(name):
    plain, guided = (terms(SYSTEMS[name], nats) for nats in (0.0, 3.0))
    assert plain.guidance == 0
    assert 0 < guided.guidance <= 3.0 * (T - PADDED)
    gained = guided.elbo - plain.elbo
    if name in Q_IS_FREE_OF_THE_GUIDE:
        np.testing.assert_allclose(gained, guided.guidance, rtol=1e-3)
    else:
        assert 0 < gained <= guided.guidance + 1e-3
