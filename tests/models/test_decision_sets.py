import numpy as np
import pytest

import dpbandits as dpb
from dpbandits.models.decision_sets import PublicSets

pytestmark = pytest.mark.numerics

DOMAIN = dpb.Box(low=[0], high=[1])
FEATURES = dpb.features.MercerFeatures(
    kernel=dpb.kernels.SquaredExponential(lengthscale=0.5), domain=DOMAIN, n_features=5
)


def test_uniform_sets_are_made_once_for_the_policies_of_a_study():
    once = PublicSets.of(FEATURES, DOMAIN, None, seed=1)
    assert PublicSets.of(FEATURES, DOMAIN, None, seed=1) is once
    other = PublicSets.of(FEATURES, DOMAIN, None, seed=2)
    assert not np.array_equal(other.sets, once.sets)
    assert np.array_equal(PublicSets.of(FEATURES, DOMAIN, None, seed=1).sets, once.sets)


def test_other_features_and_domains_have_their_own_sets():
    of = PublicSets.of
    wide = dpb.Box(low=[0], high=[2])
    assert of(FEATURES, wide, None, seed=1).sets.max() > 1 >= of(FEATURES, DOMAIN, None, seed=1).sets.max()
    declared = np.full((3, 2, 1), 0.5)
    assert of(FEATURES, DOMAIN, declared, seed=1).sets is declared
