"""What samplers and Ray Tune draw for dimensions that are drawn in another form than their values."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sample_dimensions import CHANCE, DRAWS, each, values
from scipy import stats

from hpometrics.exceptions import SpaceError
from hpometrics.space.dimensions import Choice, Float, Int, Normal, Value
from hpometrics.space.draws import ray_domain
from hpometrics.space.space import Space


@pytest.mark.parametrize("sampler", ["tpe", "cmaes", "qmc", "gp"])
@each
def test_every_sampler_draws_them(dimension, sampler):
    """Each value is one of the dimension."""
    if sampler in ("cmaes", "gp"):
        pytest.importorskip("cmaes" if sampler == "cmaes" else "scipy")
    for value in values(dimension, sampler, 14):
        assert dimension.take(value) == value


@pytest.mark.ray
@each
def test_ray_draws_what_decodes(dimension):
    """A Tuner of one's own gets the stored form, whose distribution is the same."""
    space = Space({"x": dimension})
    domain = space.to_ray()["x"]
    assert domain.sample is not None and type(domain) is type(ray_domain(dimension))
    rng = np.random.default_rng(5)
    taken = [space.decode({"x": domain.sample(random_state=rng)})["x"] for _ in range(400)]
    assert all(dimension.take(value) == value for value in taken)
    if isinstance(dimension, Normal) and dimension.step is None:
        logs = [math.log(value) if dimension.log else value for value in taken]
        assert stats.kstest(logs, stats.norm(dimension.mean, dimension.deviation).cdf).pvalue > CHANCE


@pytest.mark.ray
def test_a_space_of_ray_tune_is_read():
    """Every domain of Tune, with its distribution; the upper bound of whole numbers is left out as there."""
    from ray import tune

    space = Space.from_ray(
        {
            "uniform": tune.uniform(0, 1),
            "steps": tune.quniform(0, 1, 0.25),
            "log": tune.loguniform(1e-4, 1e-1),
            "log_steps": tune.qloguniform(0.1, 1, 0.1),
            "normal": tune.randn(0.9, 0.02),
            "normal_steps": tune.qrandn(0, 1, 0.5),
            "whole": tune.randint(1, 9),
            "whole_steps": tune.qrandint(8, 64, 8),
            "whole_log": tune.lograndint(1, 100),
            "whole_log_steps": tune.qlograndint(8, 64, 8),
            "option": tune.choice(["a", None, 2]),
            "listed": tune.grid_search([1, 2]),
            "layers": tune.choice([[8], [8, 8]]),
            "epochs": 5,
            "betas": [0.9, 0.999],
        }
    )
    assert space == Space(
        {
            "uniform": Float(0, 1),
            "steps": Float(0, 1, step=0.25),
            "log": Float(1e-4, 1e-1, log=True),
            "log_steps": Float(0.1, 1, log=True, step=0.1),
            "normal": Normal(0.9, 0.02),
            "normal_steps": Normal(0, 1, step=0.5),
            "whole": Int(1, 8),
            "whole_steps": Int(8, 64, step=8),
            "whole_log": Int(1, 99, log=True),
            "whole_log_steps": Int(8, 64, log=True, step=8),
            "option": Choice(["a", None, 2]),
            "listed": Choice([1, 2]),
            "layers_choice": Choice({"[8]": {"layers": [8]}, "[8, 8]": {"layers": [8, 8]}}),
            "epochs": Value(5),
            "betas": Value([0.9, 0.999]),
        }
    )


@pytest.mark.ray
def test_a_nested_space_of_ray_tune_has_dotted_names():
    """A grid is not a nested space, and an empty mapping is a value; two params of one name are refused."""
    from ray import tune

    nested = {"optimizer": {"lr": tune.uniform(0, 1), "sgd": {"nesterov": True}}}
    space = Space.from_ray({**nested, "listed": {"grid_search": [1, 2]}, "extra": {}})
    assert space.decode({"optimizer.lr": 0.5, "listed": 2}) == {
        **{"optimizer.lr": 0.5, "optimizer.sgd.nesterov": True, "listed": 2, "extra": {}}
    }
    with pytest.raises(SpaceError, match=r"space\.optimizer\.lr: two entries have this name"):
        Space.from_ray({**nested, "optimizer.lr": 0.1})


@pytest.mark.ray
def test_options_that_ray_tune_lists_several_times_are_weighted():
    """Tune draws them as often; a grid has each once."""
    from ray import tune

    space = Space.from_ray(
        {
            "a": tune.choice(["x", "x", "y"]),
            "b": tune.choice([[8], [8], [9]]),
            "c": tune.choice([1, 2, 2, 1]),
            "d": tune.grid_search([1, 1, 2]),
        }
    )
    assert space == Space(
        {
            "a": Choice(["x", "y"], weights=[2, 1]),
            "b_choice": Choice({"[8]": {"b": [8]}, "[9]": {"b": [9]}}, weights=[2, 1]),
            "c": Choice([1, 2]),
            "d": Choice([1, 2]),
        }
    )
    alike = Space.from_ray({"e": tune.choice(["null", None, None, [1]])}).dimensions["e_choice"]
    options = {'"null"': {"e": "null"}, "null": {"e": None}, "[1]": {"e": [1]}}
    assert alike == Choice(options, weights=[1, 2, 1])


@pytest.mark.ray
def test_a_domain_within_an_option_of_ray_tune_is_refused():
    """The error names the param, the inner domain and the condition to write; so does one within a list."""
    from ray import tune

    for option in ({"k": tune.uniform(0, 1)}, {"deep": {"k": [tune.uniform(0, 1)]}}):
        with pytest.raises(
            SpaceError,
            match=r"space\.x: an option contains a domain, k: Float\(0, 1\); .* labels and with a "
            r"condition, as in \{'x': Choice\(\['a', 'b'\]\), 'k': Float\(0, 1, when=\{'x': 'a'\}\)\}",
        ):
            Space.from_ray({"x": tune.choice([option, 2])})
    with pytest.raises(SpaceError, match=r"space\.x: an option must be a JSON value, got"):
        Space.from_ray({"x": tune.choice([object(), 2])})


@pytest.mark.ray
def test_what_ray_tune_computes_is_refused():
    """A function of other params belongs into the training function, or is a condition here."""
    from ray import tune

    for domain in (tune.sample_from(lambda spec: 1), lambda: 1):
        with pytest.raises(SpaceError, match=r"space\.a\.x: .* compute it in the training function, or "):
            Space.from_ray({"a": {"x": domain}})
    with pytest.raises(SpaceError, match=r"space\.x: low 2 must not be greater than high 1"):
        Space.from_ray({"x": tune.uniform(2, 1)})


@pytest.mark.ray
@pytest.mark.parametrize(
    "make",
    [
        lambda tune: tune.qloguniform(0.1, 1, 0.1),
        lambda tune: tune.qrandn(0, 1, 0.5),
        lambda tune: tune.randn(0.9, 0.02),
        lambda tune: tune.qrandint(10, 70, 8),
        lambda tune: tune.qrandint(1, 9, 1),
    ],
)
def test_draws_of_ray_tune_and_ours_are_alike(make):
    """Of two samples of 3000 Kolmogorov and Smirnov find no difference.

    An older Ray rounds whole numbers to their steps, so that it has the two ends half as often.
    """
    import ray
    from ray import tune

    domain = make(tune)
    (dimension,) = Space.from_ray({"x": domain}).dimensions.values()
    theirs = np.round(domain.sample(size=DRAWS, random_state=np.random.default_rng(3)), 6)
    ours = np.round(values(dimension), 6)
    if isinstance(dimension, Int) and tuple(map(int, ray.__version__.split(".")[:2])) < (2, 60):
        assert set(ours) == {value for value in theirs if value in range(dimension.low, dimension.high + 1)}
    else:
        assert stats.ks_2samp(theirs, ours).pvalue > CHANCE
