"""The smallest settings that still train: shared, so that tests share what they compile."""

SETTINGS = (
    "training.steps=20",
    "training.report_every=10",
    "training.restarts=2",
    "training.batch_size=4",
    "training.window=40",
    "training.validation_share=0.2",
    "training.merging=0",
    "posterior.encoder_size=4",
    "posterior.causal_size=4",
    "model.state_size=2",
    "model.dynamics_hidden=[4]",
    "model.switching_hidden=[4]",
    "arhmm.lags=[1]",
    "arhmm.features=[0]",
    "arhmm.restarts=1",
    "arhmm.max_iterations=5",
)
