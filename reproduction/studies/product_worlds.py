"""Made-up worlds of people and many products with public features. For evaluation only.

A person gets one product and buys it or not. The chance of buying is one half of `level` at the middle, and
varies from product to product with the standard deviation `spread`, in every context on average. `explained`
is the share of this variance that the features of the products explain. One fifth of the explained variance
is the same for everybody; the rest depends on the person (categories that a person likes, prices that fit an
income). Of the variance that is not explained, half is the product's own, whoever sees it. The other half
depends on the person in ways that differ from product to product.

| world | products | features explain |
|---|---|---|
| `half` | 200 with a category, a price and a rating | half of the variance |
| `nothing` | the same | nothing |
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from dpbandits import _checks
from dpbandits._typing import FloatArray, Seed
from dpbandits.policy.coins import PublicCoins
from dpbandits.tables import Categories, Products, Range, Schema

__all__ = ["PRODUCT_WORLDS", "ProductCrowd", "ProductWorld"]

KINDS = ("books", "games", "garden", "kitchen", "music", "shoes", "sport", "tools")
REGIONS = ("north", "south", "west", "east")

PEOPLE = Schema(age=Range(0, 1), income=Range(0, 1), region=Categories(list(REGIONS)))
COLUMNS = Schema(kind=Categories(list(KINDS)), price=Range(0, 1), rating=Range(0, 1))


@dataclass(frozen=True, eq=False)
class ProductCrowd:
    """K products, n people, and which products everybody would buy, drawn from one seed.

    Attributes:
        products: Products, in the form that a policy takes.
        people: Encoded contexts (n, d).
        table: Contexts as columns of a table, by name.
        means: Chance (n, K) that each person buys each product.
        coins: Uniform numbers (n,): a person buys if the chance exceeds the number.
    """

    products: Products
    people: FloatArray
    table: dict[str, Any]
    means: FloatArray
    coins: FloatArray


@dataclass(frozen=True)
class ProductWorld:
    """A world of people who come one at a time, and K products.

    Attributes:
        name: Name of the world.
        explained: Share of the variance between products that their features explain.
        personal: Share of the explained variance that depends on the person.
        particular: Share of the other variance that depends on the person.
        n_products: Number K of products.
        level: Mean chance that a product is bought.
        spread: Standard deviation of the chance between products.
    """

    name: str
    explained: float
    personal: float = 0.8
    particular: float = 0.5
    n_products: int = 200
    level: float = 0.3
    spread: float = 0.12

    def crowd(self, seed: Seed, n: int) -> ProductCrowd:
        """Draw products and n people. The result depends on `seed` and `n` alone."""
        _checks.integer(seed, name="seed", minimum=0)
        coins = PublicCoins(seed)
        k = self.n_products
        rows = coins.uniform("products/features", 0, k, 3)
        kinds = np.floor(len(KINDS) * rows[:, 0]).astype(np.int64)
        people = coins.uniform("products/people", 0, n, 3)
        people[:, 2] = np.floor(len(REGIONS) * people[:, 2])
        normal = coins.normal("products/effects", 0, 1, 400)[0]
        taste, fit, region, liked = np.split(normal[:80], [8, 24, 56])
        own = coins.normal("products/own", 0, k, 4)
        age, income, place = people[:, 0], people[:, 1], people[:, 2].astype(np.int64)
        # What is the same for everybody, and what depends on the person, from features of products.
        same = taste[kinds] + liked[0] * np.cos(np.pi * rows[:, 1]) + liked[1] * np.cos(np.pi * rows[:, 2])
        waves = np.sqrt(2.0) * np.cos(np.pi * np.column_stack([age, 2.0 * age]))
        person = waves @ fit.reshape(2, 8)[:, kinds]
        person = person + region.reshape(4, 8)[place][:, kinds]
        person = person - 4.0 * np.abs(income[:, None] - rows[None, :, 1])
        # What features do not say.
        alone, other = own[:, 0], waves @ own[:, 1:3].T
        inside, outside = self.explained, 1.0 - self.explained
        parts = (
            ((1.0 - self.personal) * inside, np.broadcast_to(same, (n, k))),
            (self.personal * inside, person),
            ((1.0 - self.particular) * outside, np.broadcast_to(alone, (n, k))),
            (self.particular * outside, other),
        )
        score = sum(np.sqrt(share) * _between(part) for share, part in parts)
        names = [f"product-{place + 1}" for place in range(k)]
        return ProductCrowd(
            products=Products(
                {
                    "product": names,
                    "kind": np.array(KINDS)[kinds],
                    "price": rows[:, 1],
                    "rating": rows[:, 2],
                },
                columns=COLUMNS,
                name="product",
            ),
            people=people,
            table={"age": age, "income": income, "region": np.array(REGIONS)[place]},
            means=np.clip(self.level + self.spread * score, 0.02, 0.98),
            coins=coins.uniform("products/outcomes", 0, n, 1)[:, 0],
        )


def _between(part: FloatArray) -> FloatArray:
    """Return scores (n, K), shifted to mean zero for every person and scaled to mean square one over all."""
    found = part - part.mean(axis=1, keepdims=True)
    return np.asarray(found / np.sqrt((found**2).mean()))


PRODUCT_WORLDS = {world.name: world for world in (ProductWorld("half", 0.5), ProductWorld("nothing", 0.0))}
"""Worlds by name; see the module."""
