"""Compiling takes longer than anything else: what has been compiled once is never compiled again."""

import logging

import jax
import pytest
from tiny import SETTINGS as TINY

from swerve import api
from swerve.data.windows import cut_windows
from swerve.learning import step
from swerve.runs.segment import infer_batch
from swerve_lab.boards import bouncing_ball

pytestmark = pytest.mark.usefixtures("quick_compilation")


@pytest.fixture
def compiled(caplog):
    """Names of all that has been compiled since the last call."""

    def since() -> list[str]:
        messages = [record.getMessage() for record in caplog.records]
        caplog.clear()
        return [message.split(" with ")[0] for message in messages if message.startswith("Compiling")]

    with caplog.at_level(logging.WARNING, logger="jax"), jax.log_compiles():
        yield since


def use(fitted, series) -> None:
    fitted.segment(series)
    fitted.segment(series, viterbi=True)
    fitted.score(cut_windows(series[:1], 40))


def test_the_log_names_compilations(compiled):
    def unheard(x):
        return x + 1

    jax.jit(unheard)(1.0)
    assert any("unheard" in name for name in compiled())


@pytest.mark.parametrize("model", [pytest.param("snlds", marks=pytest.mark.slow), "arhmm"])
def test_a_second_fit_of_the_same_shapes_compiles_nothing(compiled, model):
    first, second = (bouncing_ball.generate(5, seed=seed).series() for seed in (3, 4))
    use(api.fit(first, 2, model=model, settings=TINY), first)
    compiled()
    use(api.fit(second, 2, model=model, seed=1, settings=TINY), second)
    assert compiled() == []


@pytest.mark.slow
def test_all_blocks_of_steps_share_one_program():
    series = bouncing_ball.generate(5, seed=5).series()
    api.fit(series, 2, settings=TINY)
    before = [program._cache_size() for program in (step.advance, step.evaluate, infer_batch)]
    api.fit(series, 2, seed=2, settings=(*TINY, "training.steps=40", "recipe.learning_rate=0.003"))
    assert [program._cache_size() for program in (step.advance, step.evaluate, infer_batch)] == before


def test_similar_lengths_share_one_program(compiled):
    fitted = api.fit(bouncing_ball.generate(5, seed=5).series(), 2, model="arhmm", settings=TINY)
    fitted.segment(bouncing_ball.generate(5, seed=5, length=100).series())
    compiled()
    fitted.segment(bouncing_ball.generate(9, seed=6, length=110).series())
    assert compiled() == []
