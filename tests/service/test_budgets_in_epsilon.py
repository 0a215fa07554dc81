"""What a population has spent is said in epsilon at its delta everywhere, with rho or mu^2 beside it."""

import json

import pytest

from dpbandits.privacy.certificates import GaussianDP, ZeroConcentratedDP
from service.conftest import CUSTOMERS, OFFERS, Caller
from service.test_desk import login, page


@pytest.fixture
def spent(admin: Caller) -> Caller:
    """A population of (3, 1e-5) with two policies of Gaussian features."""
    assert admin.post("/v1/populations", CUSTOMERS).status_code == 201
    for name in ("offers", "more"):
        asked = {**OFFERS, "name": name, "tuning": {"release": "features"}}
        assert admin.post("/v1/policies", asked).status_code == 201
    return admin


def test_the_balance_has_the_epsilon_that_its_sum_proves_at_the_promised_delta(spent: Caller) -> None:
    balance = spent.get("/v1/populations/customers").json()
    sums = {one["name"]: one for one in balance["parts"]}
    assert balance["promised"] == {"epsilon": "3.0", "delta": "0.00001"}
    assert balance["accountant"] == "gaussian"
    exact = GaussianDP(float(sums["mu^2"]["spent"]) ** 0.5).epsilon_at(0.98e-5)
    assert float(balance["spent_as_epsilon"]) == pytest.approx(exact, rel=1e-6)
    share = float(sums["mu^2"]["spent"]) / float(sums["mu^2"]["limit"])
    assert exact / 3 > 1.3 * share  # a share of mu^2 is no share of epsilon
    looser = ZeroConcentratedDP(float(sums["mu^2"]["spent"]) / 2).epsilon_at(1e-5)
    assert 1 < exact < looser < 2


def test_metrics_the_desk_and_previews_say_the_same(spent: Caller) -> None:
    balance = spent.get("/v1/populations/customers").json()
    epsilon = float(balance["spent_as_epsilon"])
    lines = dict(line.rsplit(" ", 1) for line in spent.get("/metrics").text.splitlines() if "#" not in line)
    of = '{part="epsilon at delta",population="customers"}'
    assert float(lines[f"dpbandits_budget_spent{of}"]) == epsilon
    assert float(lines[f"dpbandits_budget_limit{of}"]) == 3
    assert 'dpbandits_budget_spent{part="mu^2",population="customers"}' in lines
    cookie = str(login(spent, str(spent.token)).cookies["dpbandits_desk"])
    for path in ("/", "/desk/populations/customers"):
        text = page(spent, path, cookie).text
        assert f"<strong>{epsilon:.4g} of 3 spent</strong>" in text
        assert "<dt>epsilon, at delta 1e-05</dt>" in text
        assert "<dt>mu^2</dt>" in text
    told = json.loads(page(spent, "/desk/ledger.json", cookie).text)["populations"][0]
    assert told["spent_as_epsilon"] == balance["spent_as_epsilon"]
    asked = {**OFFERS, "name": "third", "tuning": {"release": "features"}}
    preview = spent.post("/v1/policies:preview", asked).json()["population"]
    assert preview["before"]["spent_as_epsilon"] == balance["spent_as_epsilon"]
    assert epsilon < float(preview["after"]["spent_as_epsilon"]) < epsilon + 1  # less than epsilons added up
