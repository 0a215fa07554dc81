"""Product: columns of several domains, and what all domains owe each other."""

import json

import numpy as np
import pytest

from dpbandits.domains import Arms, Box, Domain, Finite, Product, from_config
from dpbandits.errors import InvalidData, InvalidParameter

BOX = Box(low=[0, 0], high=[1, 2])
POOL = Finite(points=[[0.25, 4.0], [0.75, 5.0]])
PRODUCT = Product(BOX, Arms(3), POOL)


def test_columns_are_concatenated_in_order():
    assert isinstance(PRODUCT, Domain)
    assert PRODUCT.dim == 5
    assert PRODUCT.slices == (slice(0, 2), slice(2, 3), slice(3, 5))
    points = PRODUCT.sample(200, np.random.default_rng(0))
    assert PRODUCT.contains(points).all()
    for part, columns in zip(PRODUCT.parts, PRODUCT.slices, strict=True):
        assert part.contains(points[:, columns]).all()


def test_a_point_is_inside_only_where_every_part_contains_it():
    good = np.array([0.5, 1.0, 2.0, 0.25, 4.0])
    bad = np.tile(good, (4, 1))
    bad[0, 1], bad[1, 2], bad[2, 4] = 2.5, 3.0, 5.0
    np.testing.assert_array_equal(PRODUCT.contains(bad), [False, False, False, True])
    assert PRODUCT.contains(good).shape == ()
    assert PRODUCT.contains(PRODUCT.clip(bad)).all()


def test_validate_batches():
    batch = PRODUCT.sample(24, np.random.default_rng(1)).reshape(2, 12, 5)
    assert PRODUCT.validate(batch) is batch
    assert PRODUCT.clip(batch).shape == batch.shape


@pytest.mark.parametrize(
    ("column", "named"), [(1, "columns 0 to 1"), (2, "columns 2 to 2"), (3, "columns 3 to 4")]
)
@pytest.mark.parametrize("value", [777.25, np.nan, np.inf])
def test_errors_name_the_columns_and_never_the_value(column, named, value):
    points = PRODUCT.sample(6, np.random.default_rng(2)).reshape(2, 3, 5)
    points[1, 1, column] = value
    with pytest.raises(InvalidData, match=f"actions, {named}") as caught:
        PRODUCT.validate(points, name="actions")
    assert "777" not in str(caught.value)


def test_wrong_width_is_refused():
    for method in (PRODUCT.validate, PRODUCT.contains, PRODUCT.clip):
        with pytest.raises(InvalidData, match=r"expected \(\.\.\., 5\)"):
            method(np.zeros((3, 4)))


def test_products_flatten():
    assert Product(Product(BOX, Arms(3)), POOL) == PRODUCT
    assert hash(Product(Product(BOX, Arms(3)), POOL)) == hash(PRODUCT)
    assert Product(Arms(3), BOX) != Product(BOX, Arms(3))


@pytest.mark.parametrize("domain", [BOX, POOL, Arms(2), PRODUCT], ids=repr)
def test_every_domain_goes_through_json(domain):
    again = from_config(json.loads(json.dumps(domain.to_config())))
    assert again == domain
    assert type(again) is type(domain)
    assert repr(again) == repr(domain)
    points = domain.sample(50, np.random.default_rng(7))
    np.testing.assert_array_equal(again.validate(points), points)
    np.testing.assert_array_equal(again.sample(50, np.random.default_rng(7)), points)


@pytest.mark.parametrize(
    "config", [{}, {"type": "Sphere"}, {"type": "Box"}, {"type": "Product", "parts": [{}]}, {"type": ["Box"]}]
)
def test_bad_configurations_are_refused(config):
    with pytest.raises(InvalidParameter):
        from_config(config)


@pytest.mark.parametrize("parts", [(), (3,), ("Box",), (Box,), (BOX, None)])
def test_bad_parts_are_refused(parts):
    with pytest.raises(InvalidParameter):
        Product(*parts)
