"""The guarantee: consistent parts, a page to sign and an annex that say what holds, JSON that keeps it."""

import dataclasses
import json
import math

import pytest

from dpbandits.errors import InvalidParameter
from dpbandits.privacy.calibration import gaussian_mu, zcdp_rho
from dpbandits.privacy.certificates import GaussianDP, PureDP, ZeroConcentratedDP
from dpbandits.privacy.definitions import JointDP, LocalDP, NoPrivacy, RowDP
from dpbandits.privacy.guarantee import Assumption, Guarantee, MechanismRecord, Observer

SERVER = Observer(who="the server", sees="every decision set and reward", protected=False)
PUBLIC = Observer(who="anyone who reads the releases", sees="the noisy block sums", protected=True)


def joint(**changes):
    certificate = ZeroConcentratedDP(zcdp_rho(1.0, 1e-6))
    arguments = {
        "definition": JointDP(epsilon=1.0, delta=1e-6),
        "observers": (SERVER, PUBLIC),
        "mechanisms": (
            MechanismRecord(
                name="mixed block sums",
                law="discrete Gaussian",
                scale=1.34381e7,
                sensitivity=2965900.4,
                certificate=certificate,
                releases=12,
            ),
        ),
        "assumptions": (
            Assumption(
                name="clipped rewards", text="Rewards are clipped to their public range.", enforced=True
            ),
            Assumption(
                name="contribution bound",
                text="No user takes part in more than 1.5 rounds. Nobody counts them.",
                enforced=False,
            ),
        ),
        "theorem": "The matrix mechanism on adaptive streams.",
        "status": "enforced",
        "certificate": certificate,
    }
    return Guarantee(**{**arguments, **changes})


def broken():
    return Guarantee(
        definition=RowDP(epsilon=1.0, delta=1e-5, distance=1.0),
        observers=(Observer(who="the modeler", sees="the released table", protected=True),),
        mechanisms=(),
        assumptions=(),
        theorem="",
        status="broken",
        attack="Regression on three known rows recovers all others.",
    )


ALL = [
    joint(),
    joint(status="simulated", certificate=GaussianDP(gaussian_mu(1.0, 1e-6))),
    broken(),
    Guarantee.without_privacy(observers=[SERVER], notes=["A baseline."]),
    Guarantee(
        definition=LocalDP(epsilon=2.0),
        observers=(PUBLIC,),
        mechanisms=(),
        assumptions=(),
        theorem="Ratios are enumerated.",
        status="enforced",
        certificate=PureDP(2.0),
    ),
]


def one_line(text):
    return " ".join(text.split())


class TestPages:
    def test_the_page_to_sign_says_everything_asked_of_it(self):
        text = one_line(joint().explain())
        for part in (
            "Promise: Joint differential privacy, epsilon = 1, delta = 1e-06.",
            "Who is protected: One user: everything the user contributes in at most 1 round.",
            "- The server: every decision set and reward (not covered)",
            "- Anyone who reads the releases: the noisy block sums (covered)",
            "What is not promised: - ",
            "[ ] Contribution bound: No user takes part in more than 1.5 rounds. Enforced by software",
            "Enforced by software: Clipped rewards.",
            "Signature: ____",
        ):
            assert part in text
        for part in ("NOT A PROTECTION", "BROKEN", "zero-concentrated", "Nobody counts them"):
            assert part not in text

    def test_the_annex_says_what_an_expert_asks_for(self):
        text = one_line(joint(notes=("A note.",)).annex())
        for part in (
            "Adjacency: two histories are neighbouring if one user's whole contribution",
            "everything seen by anyone who reads the releases",
            "Mixed block sums: at most 12 releases; discrete Gaussian noise of scale 1.34381e+07 (rounded)",
            "Composition: All mechanisms together: zero-concentrated differential privacy (zCDP), rho = ",
            "Rule: zCDP composition, rhos add up.",
            "Theorem: The matrix mechanism",
            "Assumptions that are enforced: - Clipped rewards: Rewards are clipped to their public range.",
            "Assumptions to check: - Contribution bound: No user takes part in more than 1.5 rounds. Nobody",
            "Notes: - A note.",
            joint(notes=("A note.",)).digest,
        ):
            assert part in text

    def test_scales_are_shown_in_the_unit_that_people_read(self):
        (exact,) = joint().mechanisms
        record = dataclasses.replace(exact, step=2.0**-20, shown_in="in reward units, L2")
        text = one_line(joint(mechanisms=(record,)).annex())
        assert "noise of scale 12.8156 (rounded); sensitivity at most 2.82851, all releases together" in text
        assert "(in reward units, L2)" in text
        fields = json.loads(joint(mechanisms=(record,)).to_json())["mechanisms"][0]
        assert (fields["scale"], fields["sensitivity"]) == (1.34381e7, 2965900.4)

    def test_numbers_are_rounded_towards_the_truth(self):
        text = one_line(joint().annex())
        assert "at most 2.719 (e to the epsilon)" in text  # e = 2.71828...
        assert "sensitivity at most 2.96591e+06" in text
        percent = float(one_line(joint().explain()).split("protected data at most ")[1].split("%")[0])
        assert 0.0 <= percent / 100 - joint().membership_bound() < 0.001

    def test_epsilons_at_other_deltas_are_those_of_the_certificate(self):
        found = joint()
        text = one_line(found.annex()).split("and epsilon = ")[1].split(".\n")[0]
        at_small, at_large = (
            float(text.split(f" at delta = {delta}")[0].split()[-1]) for delta in ("1e-09", "1e-06")
        )
        for shown, delta in ((at_small, 1e-9), (at_large, 1e-6)):
            assert 0.0 <= shown - found.epsilon_at(delta) < 1e-3

    def test_assumptions_of_a_part_are_one_box_with_their_names(self):
        theirs = [
            Assumption(name=name, text="It holds. More.", enforced=False, part="Published function")
            for name in ("one ledger", "public arms")
        ]
        found = joint(assumptions=(*joint().assumptions, *theirs))
        assert "[ ] Published function: Its assumptions hold (one ledger, public arms)." in one_line(
            found.explain()
        )
        assert "- Published function, one ledger: It holds. More." in found.annex()

    def test_limits_follow_those_of_the_definition(self):
        text = one_line(joint(limits=("Answers are public.",)).explain())
        assert text.index("Facts about people") < text.index("- Answers are public. Check each")

    def test_simulated_says_that_it_protects_nobody_first(self):
        text = one_line(ALL[1].explain())
        assert text.startswith("PRIVACY STATEMENT NOT A PROTECTION")
        assert "Signature" not in text

    def test_broken_names_the_attack_and_promises_nothing(self):
        text = one_line(broken().explain())
        assert text.startswith("PRIVACY STATEMENT BROKEN")
        assert "three known rows" in text
        assert "Claim: Row-level differential privacy, epsilon = 1, delta = 1e-05." in text
        for promised in ("guesses right", "covered", "Signature"):
            assert promised not in text

    def test_none_says_so(self):
        text = one_line(ALL[3].explain())
        assert text.startswith("PRIVACY STATEMENT NO PRIVACY IS PROMISED")
        assert "A baseline." in text
        for promised in ("covered", "Signature"):
            assert promised not in text

    @pytest.mark.parametrize("guarantee", ALL)
    def test_lines_fit(self, guarantee):
        for text in (guarantee.explain(), guarantee.annex()):
            assert max(map(len, text.splitlines())) <= 100

    def test_unusual_numbers_are_shown_in_full(self):
        definition = JointDP(epsilon=0.123456789, delta=1.5e-7)
        certificate = ZeroConcentratedDP(zcdp_rho(0.123456789, 1.5e-7))
        text = joint(definition=definition, certificate=certificate).explain()
        assert "epsilon = 0.123456789, delta = 1.5e-07" in text


class TestNumbers:
    def test_epsilon_at_comes_from_the_certificate(self):
        assert joint().epsilon_at(1e-6) == pytest.approx(1.0)
        assert joint().epsilon_at(1e-9) > 1.0
        assert broken().epsilon_at(1e-5) == math.inf
        assert ALL[3].epsilon_at(0.5) == math.inf

    def test_membership(self):
        assert joint().membership_bound() < 0.56  # the pair alone would give .731
        assert broken().membership_bound() == 1.0
        assert ALL[4].membership_bound() == pytest.approx(math.exp(2) / (1 + math.exp(2)))

    def test_defaults_come_from_the_definition(self):
        guarantee = joint()
        assert (guarantee.epsilon, guarantee.delta) == (1.0, 1e-6)
        assert guarantee.unit == guarantee.definition.unit
        assert guarantee.neighbours == guarantee.definition.neighbours

    def test_is_frozen(self):
        with pytest.raises(dataclasses.FrozenInstanceError):
            joint().epsilon = 0.1


class TestConsistency:
    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"status": "perfect"}, "status"),
            ({"certificate": None}, "needs a certificate"),
            ({"certificate": ZeroConcentratedDP(1.0)}, "does not prove"),
            ({"epsilon": 0.5}, "does not prove"),
            ({"delta": 1e-9}, "does not prove"),
            ({"observers": (SERVER,)}, "observer"),
            ({"attack": "an attack"}, "attack"),
            ({"status": "broken", "certificate": None}, "attack"),
            ({"status": "broken", "attack": "an attack"}, "no certificate"),
            ({"status": "none", "certificate": None}, "NoPrivacy"),
            ({"definition": NoPrivacy()}, "NoPrivacy"),
        ],
    )
    def test_contradictions_are_refused(self, changes, message):
        with pytest.raises(InvalidParameter, match=message):
            joint(**changes)

    def test_a_calibrated_scale_always_passes(self):
        for epsilon, delta in [(0.01, 1e-15), (1.0, 1e-6), (50.0, 1e-9)]:
            for certificate in (
                GaussianDP(gaussian_mu(epsilon, delta)),
                ZeroConcentratedDP(zcdp_rho(epsilon, delta)),
            ):
                joint(definition=JointDP(epsilon=epsilon, delta=delta), certificate=certificate)


class TestJSON:
    @pytest.mark.parametrize("guarantee", ALL)
    def test_round_trip(self, guarantee):
        text = guarantee.to_json()
        assert Guarantee.from_json(text) == guarantee
        assert Guarantee.from_json(text).explain() == guarantee.explain()
        assert Guarantee.from_json(text).annex() == guarantee.annex()

    def test_is_strict_json(self):
        def refuse(constant):
            raise AssertionError(constant)

        for guarantee in ALL:
            json.loads(guarantee.to_json(), parse_constant=refuse)

    def test_tampering_is_noticed(self):
        fields = json.loads(joint().to_json())
        fields["epsilon"] = 0.1
        with pytest.raises(InvalidParameter, match="does not prove"):
            Guarantee.from_json(json.dumps(fields))

    @pytest.mark.parametrize("name", json.loads(joint().to_json()))
    def test_a_field_that_is_missing_has_no_default(self, name):
        fields = json.loads(joint().to_json())
        del fields[name]
        with pytest.raises(InvalidParameter):
            Guarantee.from_json(json.dumps(fields))

    @pytest.mark.parametrize(
        "changed",
        [
            {"assumptions": [{"name": "x", "text": "T.", "enforced": "no", "part": ""}]},
            {"observers": [{"who": "all", "sees": "all", "protected": "false"}]},
            {"limits": "Text."},
            {"notes": [3]},
            {"delta": 2},
            {"delta": True},
            {"mechanisms": [json.loads(joint().to_json())["mechanisms"][0] | {"step": -1.0}]},
        ],
        ids=lambda changed: f"{changed}"[:30],
    )
    def test_a_field_of_another_type_is_refused(self, changed):
        fields = json.loads(joint().to_json()) | changed
        with pytest.raises(InvalidParameter):
            Guarantee.from_json(json.dumps(fields))

    @pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 1}', '{"format": 2}', "null"])
    def test_refuses_other_texts(self, text):
        with pytest.raises(InvalidParameter):
            Guarantee.from_json(text)


def test_a_promise_that_says_nothing_can_still_be_explained():
    promise = Guarantee(
        definition=RowDP(epsilon=1e4, distance=1.0),
        observers=(Observer(who="the modeler", sees="rows", protected=True),),
        mechanisms=(),
        assumptions=(),
        theorem="None is needed.",
        status="enforced",
        certificate=PureDP(1e4),
    )
    assert "three hundred digits" in one_line(promise.annex())
    assert "at most 100.0% of the time" in one_line(promise.explain())
