"""Ledgers, outboxes, server and policy folders that others than their owner can write to are refused."""

import pytest

import dpbandits as dpb
from contracts.cases import CASES
from dpbandits.budget import SQLiteLedger
from dpbandits.errors import StateError
from dpbandits.local.device.outbox import FileOutbox
from dpbandits.local.server.durable import DurableServer


def ledger(place):
    return SQLiteLedger(place)


def outbox(place):
    return FileOutbox(place)


def server(place):
    spec = dpb.local.Spec(contexts=dpb.Box(low=[0], high=[1]), arms=range(2), privacy=dpb.LocalDP(epsilon=1))
    with DurableServer.open(spec, place):
        return


def policy(place):
    one = CASES[0].make()
    with type(one).open(place, new=one):
        return


@pytest.mark.parametrize("right", [0o020, 0o002])
@pytest.mark.parametrize("of_the_folder", [False, True])
@pytest.mark.parametrize("opened", [ledger, outbox, server, policy])
def test_what_others_can_write_is_refused_with_the_command_that_mends_it(
    tmp_path, opened, of_the_folder, right
):
    place = tmp_path / "its folder" / "it"
    place.parent.mkdir(mode=0o700)
    opened(place)
    touched = place.parent if of_the_folder else place
    sound = touched.stat().st_mode & 0o777
    touched.chmod(sound | right)
    with pytest.raises(StateError, match="can be written by others") as caught:
        opened(place)
    assert f"chmod go-w '{touched}'" in str(caught.value)
    touched.chmod(sound)
    opened(place)


def test_a_new_ledger_in_a_folder_of_others_is_refused_before_it_is_made(tmp_path):
    tmp_path.chmod(0o770)
    with pytest.raises(StateError, match="the folder of the ledger"):
        ledger(tmp_path / "book.sqlite")
    assert not (tmp_path / "book.sqlite").exists()


def test_a_folder_where_nobody_replaces_what_is_anothers_is_fine(tmp_path):
    tmp_path.chmod(0o1777)  # as /tmp is
    for opened in (ledger, outbox, server, policy):
        opened(tmp_path / opened.__name__)
