"""The device in JavaScript decides numbers: it knows their labels, and needs no value."""

import secrets

import pytest

import dpbandits as dpb
from dpbandits.local import Client, Server, Spec
from js.driver import asked, needs_node

pytestmark = [needs_node]

PEOPLE = dpb.Schema(**{f"c{j}": dpb.Range(0, 1) for j in range(7)})


@pytest.mark.parametrize("columns", [1, 7])
def test_a_browser_decides_the_number_that_python_decides(columns):
    """With seven columns, versions name some of them, and plain arms could be 12 at most."""
    people = dpb.Schema(**{name: dpb.Range(0, 1) for name in PEOPLE.names[:columns]})
    spec = Spec(contexts=people, actions=dpb.Range(1, 20, steps=20), privacy=dpb.LocalDP(epsilon=2))
    published = Server(spec).publish()
    context = {name: 0.1 + 0.1 * place for place, name in enumerate(people.names)}
    (made,) = asked(
        [
            {
                "what": "report",
                "spec": spec.to_json(),
                "published": published.to_json(spec),
                "epsilon": 2,
                "context": context,
                "reward": 1,
                "random": secrets.token_hex(256),
            }
        ]
    )
    assert made["arm"] == Client(spec).decide(published, context)


def test_a_browser_refuses_actions_of_several_columns_before_a_context():
    """Python devices get these as dicts, and the labels of a contract are texts."""
    actions = dpb.Schema(price=dpb.Ordered([5, 10]), channel=dpb.Categories(["mail", "call"]))
    spec = Spec(contexts=PEOPLE, actions=actions, privacy=dpb.LocalDP(epsilon=2))
    (made,) = asked([{"what": "contract", "spec": spec.to_json()}])
    assert "actions of several columns" in str(made)
