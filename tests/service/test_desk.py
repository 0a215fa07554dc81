"""The desk: who may look, what is on its pages, and how they are made; no browser is needed."""

import csv
import html
import io
import json
import re
from collections.abc import Iterator
from decimal import Decimal
from html.parser import HTMLParser
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpbandits as dpb
from dpbandits.privacy import Guarantee
from dpbandits.service.backups import back_up
from dpbandits.service.core import Service
from dpbandits.service.desk.pictures import drawn_map, learned, line, shares
from dpbandits.service.tokens import SCOPES
from service.conftest import AGNES, CUSTOMERS, OFFERS, Caller, of_the_library, served

SECRET = "s3cret"
PERSON, REWARD = {**AGNES, "age": 61.8033989}, 0.618034
"""No number of a page has their digits by chance."""
SPEC = dpb.local.Spec(
    contexts=dpb.Schema(
        age=dpb.Range(18, 90),
        region=dpb.Categories(["north", "<i>south</i>", "west"]),
        visits=dpb.Range(0, 9),
    ),
    arms=["mail", "<b>call</b>"],
    privacy=dpb.LocalDP(epsilon=0.5),
)
DEVICES = {"name": "devices", "privacy": {"kind": "LocalDP", "epsilon": 2}}
APP = {"name": "app", "population": "devices", "spec": json.loads(SPEC.to_json())}
PAGES = (
    "/",
    "/desk/populations/customers",
    "/desk/policies/offers",
    "/desk/policies/offers/statement",
    "/desk/ledger",
    "/desk/ledger.csv",
    "/desk/ledger.json",
)


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Caller]:
    """A shop with releases, and nobody logged in."""
    with served(Service(tmp_path_factory.mktemp("service") / "data")) as caller:
        assert caller.post("/v1/populations", CUSTOMERS).status_code == 201
        assert caller.post("/v1/policies", {**OFFERS, "arms": ["mail", "<b>call</b>"]}).status_code == 201
        for number in range(60):
            reply = caller.decide(f"{SECRET}-id-{number}", user=f"{SECRET}-{number}", context=PERSON).json()
            caller.reward(reply["id"], REWARD)
        assert caller.post("/v1/populations", DEVICES).status_code == 201
        assert caller.post("/v1/local", APP).status_code == 201
        yield caller


def page(caller: Caller, path: str, cookie: str = "", method: str = "GET", **more: Any) -> Any:
    caller.client.cookies.clear()
    headers = {"Cookie": f"dpbandits_desk={cookie}"} if cookie else {}
    return caller.client.request(
        method, path, headers={**headers, **more.pop("headers", {})}, follow_redirects=False, **more
    )


def login(caller: Caller, token: str, **headers: str) -> Any:
    """Log in by the form, as a browser does."""
    form = page(caller, "/", headers=headers)
    [(name, cookie)] = form.cookies.items()
    data = {"form": re.findall('name="form" value="(.*)"', form.text)[0], "token": token}
    sent = {"Cookie": f"{name}={cookie}", **headers}
    return page(caller, "/login", method="POST", data=data, headers=sent)


def cookie_of(caller: Caller, *scopes: str) -> str:
    reply = login(caller, str(caller.with_scopes(*(scopes or ("read",))).token))
    assert reply.status_code == 303
    return str(reply.cookies["dpbandits_desk"])


@pytest.mark.parametrize("path", PAGES)
def test_nobody_looks_without_a_token(desk: Caller, path: str) -> None:
    for cookie in ("", "guess", str(desk.token)):
        reply = page(desk, path, cookie)
        assert reply.status_code == 401
        assert 'name="token"' in reply.text
        assert "customers" not in reply.text
    reply = desk.client.get(path, headers={"Authorization": f"Bearer {desk.token}"})
    assert reply.status_code == 401  # a page is for a browser that logged in


@pytest.mark.parametrize("scope", sorted({*SCOPES} - {"read", "admin"}))
def test_other_scopes_are_shown_nothing(desk: Caller, scope: str) -> None:
    reply = login(desk, str(desk.with_scopes(scope).token))
    assert reply.status_code == 403
    assert "dpbandits_desk" not in reply.cookies


def test_a_login_sends_a_cookie_that_is_no_token_and_no_script_reads(desk: Caller) -> None:
    reply = login(desk, str(desk.token))
    sent = reply.headers["set-cookie"]
    assert "HttpOnly" in sent
    assert "SameSite=strict" in sent
    assert str(desk.token) not in sent
    assert reply.headers["location"] == "/"
    for token in ("", "dpb_x", "é" * 9, "x" * 5000, "a\r\nb"):
        assert login(desk, token).status_code == 401


def test_a_session_ends_with_its_token_and_by_hand(desk: Caller) -> None:
    made = desk.post("/v1/tokens", {"label": "officer", "scopes": ["read"]}).json()
    cookie = str(login(desk, made["token"]).cookies["dpbandits_desk"])
    other = cookie_of(desk)
    assert page(desk, "/", cookie).status_code == 200
    assert desk("DELETE", f"/v1/tokens/{made['id']}").status_code == 204
    assert page(desk, "/", cookie).status_code == 401
    assert page(desk, "/logout", other, method="POST").status_code == 303
    assert page(desk, "/", other).status_code == 401


def test_a_token_with_limits_is_shown_what_it_reaches(desk: Caller) -> None:
    def shown(**limits: list[str]) -> dict[str, tuple[int, str]]:
        made = desk.post("/v1/tokens", {"label": "x", "scopes": ["read"], **limits}).json()
        cookie = str(login(desk, made["token"]).cookies["dpbandits_desk"])
        paths = (*PAGES, "/desk/local/app", "/desk/local/app/statement", "/desk/populations/devices")
        replies = {path: page(desk, path, cookie) for path in paths}
        return {path: (reply.status_code, reply.text) for path, reply in replies.items()}

    devices = shown(populations=["devices"])
    missing = {path for path, (status, _) in devices.items() if status != 200}
    assert missing == {*PAGES[1:4]}
    assert all("customers" not in text and "offers" not in text for _, text in devices.values())
    assert "app" in devices["/desk/ledger.csv"][1]
    offers = shown(policies=["offers"])
    missing = {path for path, (status, _) in offers.items() if status != 200}
    assert missing == {PAGES[1], "/desk/local/app", "/desk/local/app/statement", "/desk/populations/devices"}
    assert all(">app<" not in text and "devices" not in text for _, text in offers.values())
    assert json.loads(offers["/desk/ledger.json"][1])["populations"] == []


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_other_sites_send_no_forms(desk: Caller, site: str) -> None:
    cookie = cookie_of(desk)
    assert login(desk, str(desk.token), **{"Sec-Fetch-Site": site}).status_code == 403
    reply = page(desk, "/logout", cookie, method="POST", headers={"Sec-Fetch-Site": site})
    assert reply.status_code == 403
    assert page(desk, "/", cookie).status_code == 200


def test_pages_hold_nothing_of_anybody(desk: Caller) -> None:
    cookie = cookie_of(desk)
    for path in (*PAGES, "/desk/policies/none", "/desk/populations/none"):
        text = page(desk, path, cookie).text
        for raw in (SECRET, str(REWARD), str(PERSON["age"]), str(desk.token), cookie):
            assert raw not in text, (path, raw)


def test_pages_take_no_script_no_style_and_nothing_from_elsewhere(desk: Caller) -> None:
    cookie = cookie_of(desk)
    for path in PAGES[:5]:
        reply = page(desk, path, cookie)
        rules = reply.headers["content-security-policy"]
        assert "default-src 'none'" in rules
        assert "unsafe" not in rules
        assert reply.headers["cache-control"] == "no-store"
        for banned in ("<script", "style=", "onclick", "http://", "https://", "token="):
            assert banned not in reply.text, (path, banned)
    assert "<b>call" not in page(desk, "/desk/policies/offers", cookie).text


def test_budgets_and_rounds_are_those_of_the_service(desk: Caller) -> None:
    cookie = cookie_of(desk)
    balance = desk.get("/v1/populations/customers").json()
    spent, promised = float(balance["spent_as_epsilon"]), float(balance["promised"]["epsilon"])
    overview = page(desk, "/", cookie).text
    assert f"<strong>{spent:.4g} of {promised:.4g} spent</strong>" in overview
    assert f"<dt>epsilon, at delta {float(balance['promised']['delta']):.4g}</dt>" in overview
    policy = of_the_library(arms=["mail", "call"])
    following = next(end - 60 for end in policy.batch_boundaries if end > 60)
    text = page(desk, "/desk/policies/offers", cookie).text
    assert f"<dt>Rounds to the next release</dt><dd>{following}</dd>" in text
    assert "<dd>60 of 400</dd>" in text
    assert "Joint differential privacy, epsilon = 1, delta" in page(desk, PAGES[3], cookie).text


def test_a_statement_is_printed_whole_with_a_box_for_every_unchecked_assumption(desk: Caller) -> None:
    found = desk.get("/v1/policies/offers/guarantee").json()["guarantee"]
    stated = Guarantee.from_json(json.dumps(found))
    printed = page(desk, PAGES[3], cookie_of(desk)).text
    article = printed[printed.index("<article") : printed.index("</article>")]
    shown = " ".join(html.unescape(re.sub(r"<[^>]*>", "", article)).split())
    for one in stated.pages():
        for section in one.sections:
            for text in (section.title, *section.texts, *section.items):
                assert " ".join(text.split()) in shown
    boxes = article[article.index('<ul class="boxes">') :]
    boxes = boxes[: boxes.index("</ul>")]
    assert boxes.count("<li>") == sum(not one.enforced for one in stated.assumptions)
    assert article.count("Signature") == 2  # its label, and the line


def exact(caller: Caller) -> set[str]:
    """Names of the sums that bound a population; both files of the ledger have them digit by digit."""
    cookie = cookie_of(caller)
    reply = page(caller, "/desk/ledger.csv", cookie)
    assert reply.headers["content-disposition"] == 'attachment; filename="ledger.csv"'
    rows = list(csv.DictReader(io.StringIO(reply.text)))
    told = page(caller, "/desk/ledger.json", cookie).json()
    people, parts = told["populations"][0]["name"], told["populations"][0]["parts"]
    theirs = [one for one in told["charges"] if one["population"] == people]
    for part in parts:
        paid = {one["policy"]: one[part["name"]] for one in theirs}
        assert {one["policy"]: one[part["name"]] for one in rows if one["policy"] in paid} == paid
        assert sum(map(Decimal, filter(None, paid.values()))) == Decimal(part["spent"])
    return {part["name"] for part in parts}


def test_the_ledger_is_exact_in_its_files(desk: Caller, tmp_path: Path) -> None:
    assert exact(desk) == {"epsilon", "delta"}  # marginal tables of two columns: Laplace noise alone
    with served(Service(tmp_path / "data")) as caller:
        assert caller.post("/v1/populations", CUSTOMERS).status_code == 201
        for name in ("offers", "others"):
            asked = {**OFFERS, "name": name, "tuning": {"release": "features"}}
            assert caller.post("/v1/policies", asked).status_code == 201
        assert "mu^2" in exact(caller)


def test_expected_reward_is_the_released_functions_own(desk: Caller) -> None:
    text = desk.get("/v1/policies/offers/policy").text
    found = learned(text)
    function = dpb.central.PublishedFunction.from_files({"policy.json": text.encode()})
    rng = np.random.default_rng(1)
    people = {"age": rng.uniform(18, 90, 4000), "region": rng.choice(["north", "south", "west"], 4000)}
    mean, _ = function.predict(people)
    assert found.reward == pytest.approx(mean.max(axis=1).mean(), abs=0.05)
    assert [arm.reward for arm in found.arms] == pytest.approx(mean.mean(axis=0).tolist(), abs=0.05)
    assert sum(arm.share for arm in found.arms) == pytest.approx(1)
    assert learned(text) == found


def test_points_of_a_domain_have_a_page_too_and_so_has_a_promise_without_delta(desk: Caller) -> None:
    asked = {name: value for name, value in OFFERS.items() if name not in ("contexts", "arms")}
    asked |= {
        "name": "doses",
        "population": "rows",
        "domain": {"type": "Box", "low": [0], "high": [1]},
        "kernel": {"type": "SquaredExponential", "lengthscale": 0.3},
        "horizon": 60,
        "tuning": {"blocks": [10, 60], "n_features": 5, "lag": 1},
    }
    assert desk.post("/v1/populations", {**CUSTOMERS, "name": "rows"}).status_code == 201
    assert desk.post("/v1/policies", asked).status_code == 201
    for number in range(15):
        body = {"id": f"d{number}", "user": f"d{number}", "candidates": [[0.1], [0.9]]}
        reply = desk.post("/v1/policies/doses/decisions", body).json()
        desk.reward(reply["id"], 1, policy="doses")
    cookie = cookie_of(desk)
    text = page(desk, "/desk/policies/doses", cookie).text
    assert "<dd>1 of 2</dd>" in text
    assert "<dt>Domain</dt><dd>Box</dd>" in text
    assert "Best for this share" not in text
    pure = {**OFFERS, "name": "pure", "population": "rows", "privacy": {"epsilon": 0.1}}
    assert desk.post("/v1/policies", pure).status_code == 201
    assert ", delta" not in page(desk, "/desk/policies/pure", cookie).text.partition("<dl")[0]


def test_a_local_policy_is_in_the_ledger_and_has_a_statement(desk: Caller) -> None:
    cookie = cookie_of(desk)
    rows = page(desk, "/desk/ledger.json", cookie).json()["charges"]
    [row] = [one for one in rows if one["population"] == "devices"]
    assert (row["policy"], row["room"], row["promise"]) == ("app", "local", "epsilon 0.5")
    parts = desk.get("/v1/populations/devices").json()["parts"]
    spent = {one["name"]: float(one["spent"]) for one in parts}
    assert spent["epsilon"] == float(row["epsilon"]) == 0.5
    printed = page(desk, "/desk/local/app/statement", cookie).text
    assert "Local differential privacy, epsilon = 0.5" in " ".join(printed.split())
    assert 'href="/desk/local/app/statement"' in page(desk, "/", cookie).text
    assert 'href="/desk/local/app"' in page(desk, "/desk/populations/devices", cookie).text
    assert page(desk, "/desk/local/none", cookie).status_code == 404


# -- the map of a local policy ----------------------------------------------------------------------------


BINS = dpb.local.Spec(
    contexts=dpb.Box([0, 0], [4, 8]), arms=range(3), learner="tree", privacy=dpb.LocalDP(epsilon=1)
)


def test_a_map_shows_the_arm_that_a_device_is_given() -> None:
    published = dpb.local.PublishedArms(version=3, splits=(0, 1), arms=np.array([0, 1, 2]))
    drawn = drawn_map(BINS, published, 0, 1)
    wide, high = drawn.width - drawn.left - 12, drawn.bottom - 12
    covered = sum(one.width * one.height for one in drawn.areas)
    assert covered == pytest.approx(wide * high, rel=1e-3)
    for context in np.random.default_rng(3).uniform([0, 0], [4, 8], (200, 2)):
        x, y = drawn.left + context[0] / 4 * wide, drawn.bottom - context[1] / 8 * high
        [arm] = {
            one.arm
            for one in drawn.areas
            if one.left <= x < one.left + one.width and one.top < y <= one.top + one.height
        }
        assert arm == published.recommend(BINS, context)
    assert set(drawn.named) == {0, 1, 2}
    shown = [sum(one.width * one.height for one in drawn.areas if one.arm == arm) for arm in range(3)]
    assert sorted(shown) == pytest.approx(
        [0.25 * wide * high, 0.25 * wide * high, 0.5 * wide * high], rel=0.01
    )
    assert shares(BINS, published) == pytest.approx(np.array(shown) / (wide * high), abs=0.04)
    assert [tick.says for tick in drawn.up] == ["0", "2", "4", "6", "8"]


def test_a_map_over_columns_of_people_names_their_categories() -> None:
    published = dpb.local.Server(SPEC).publish()
    drawn = drawn_map(SPEC, published, 0, 1)
    assert [tick.says for tick in drawn.up] == ["north", "<i>south</i>", "west"]
    assert drawn.across[0].says == "18"
    one_column = dpb.local.Spec(contexts=dpb.Box([0], [1]), arms=range(2), privacy=dpb.LocalDP(epsilon=1))
    assert drawn_map(one_column, dpb.local.Server(one_column).publish(), 0, None).up == ()


def test_a_local_policys_page_has_a_map_over_any_two_columns(desk: Caller) -> None:
    cookie = cookie_of(desk)
    text = page(desk, "/desk/local/app", cookie).text
    assert "Arms by age and region" in text
    assert "&lt;b&gt;call&lt;/b&gt;" in text
    assert "<b>call" not in text
    assert "<i>south" not in text
    assert "Arms by region and visits" in page(desk, "/desk/local/app/by/1/2", cookie).text
    for wrong in ("9/1", "1/1", "x/y", "1/0", "-1/2"):
        assert "Arms by age and region" in page(desk, f"/desk/local/app/by/{wrong}", cookie).text


def test_a_population_whose_spending_is_not_known_says_so(service: Service) -> None:
    with served(service) as caller:
        assert caller.post("/v1/populations", CUSTOMERS).status_code == 201
        cookie = cookie_of(caller)
        for path in PAGES[:2]:
            assert "Closed" not in page(caller, path, cookie).text
        service.write(
            lambda writes: writes.run("INSERT INTO facts VALUES ('closed customers', 'a test')")
        ).result()
        for path in PAGES[:2]:
            assert "Closed: it came with a backup" in page(caller, path, cookie).text


def test_what_is_shown_of_a_release_is_what_the_store_holds_by_now(tmp_path: Path) -> None:
    """Of a store that was put back, in which the version is drawn anew."""
    service = Service(tmp_path / "data")
    with served(service) as caller:
        assert caller.post("/v1/populations", CUSTOMERS).status_code == 201
        tuning = {"blocks": [6, 12, 400], "n_features": 3, "lag": 0}
        assert caller.post("/v1/policies", {**OFFERS, "tuning": tuning}).status_code == 201
        for number in range(14):
            caller.reward(caller.decide(f"v{number}").json()["id"], 1)
            service.tick().result()
        cookie, said = cookie_of(caller), re.compile(r"From (\S+) at the first release to (\S+) at")
        first, last = said.findall(page(caller, "/desk/policies/offers", cookie).text)[0]
        assert first != last
        with service.store.writing() as writes:
            writes.run(
                "UPDATE releases SET published = (SELECT published FROM releases WHERE version = 2) "
                "WHERE version = 1"
            )
        assert said.findall(page(caller, "/desk/policies/offers", cookie).text) == [(last, last)]


def test_a_backup_is_looked_at_and_opens_nothing(tmp_path: Path) -> None:
    with served(Service(tmp_path / "data")) as caller:
        assert caller.post("/v1/populations", CUSTOMERS).status_code == 201
        assert caller.post("/v1/policies", OFFERS).status_code == 201
        for number in range(30):
            caller.decide(f"v{number}")
        caller.get("/v1/policies/offers/policy")
        token = str(caller.token)
    back_up(tmp_path / "data", tmp_path / "backup")
    with served(Service(tmp_path / "backup"), token) as caller:
        cookie = str(login(caller, token).cookies["dpbandits_desk"])
        for path in PAGES:
            assert page(caller, path, cookie).status_code == 200, path
        assert "read-only" in page(caller, "/desk/policies/offers", cookie).text


def test_a_line_stays_inside_its_picture() -> None:
    drawn = line([0, 50, 200], [0.2, 3.0, -4.0], [0.1, 9.0, 9.0], low=0, high=1)
    places = re.findall(r"([\d.]+),([\d.]+)", f"{drawn.path} {drawn.band}")
    assert {float(x) for x, _ in places} == {
        drawn.left,
        drawn.left + (drawn.right - drawn.left) / 4,
        drawn.right,
    }
    assert all(12 <= float(y) <= drawn.bottom for _, y in places)
    assert [tick.says for tick in drawn.across] == ["0", "50", "100", "150", "200"]


# -- for everybody: names, order, contrast ----------------------------------------------------------------


class Outline(HTMLParser):
    """What a screen reader is told of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[tuple[str, dict[str, str | None]]] = []
        self.headings: list[int] = []
        self.unnamed: list[str] = []
        self.labels: set[str | None] = set()
        self.fields: list[str | None] = []
        self.landmarks: list[str] = []
        self.language = None
        self.title = ""
        self._text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "html":
            self.language = given.get("lang")
        if tag == "label":
            self.labels.add(given.get("for"))
        if tag == "input":
            self.fields += [given.get("id")] if given.get("type") != "hidden" else []
            return
        if tag in ("main", "header", "footer", "nav"):
            self.landmarks.append(tag)
        if tag == "svg" and given.get("aria-hidden") != "true" and "aria-labelledby" not in given:
            self.unnamed.append("svg")
        if given.get("tabindex") == "0" and not given.get("aria-label"):
            self.unnamed.append(tag)
        if tag == "th" and "scope" not in given:
            self.unnamed.append(tag)
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))
        if tag in ("a", "button", "title", "th", "h1", "h2", "h3"):
            self.open.append((tag, given))
            self._text.append("")

    def handle_data(self, data: str) -> None:
        self._text = [text + data for text in self._text]

    def handle_endtag(self, tag: str) -> None:
        if self.open and self.open[-1][0] == tag:
            self.open.pop()
            text = self._text.pop().strip()
            if not text:
                self.unnamed.append(tag)
            if tag == "title" and not self.title:
                self.title = text


@pytest.mark.parametrize("path", ["/login-form", *PAGES[:5], "/desk/local/app", "/desk/policies/none"])
def test_everything_has_a_name_and_headings_go_down_by_one(desk: Caller, path: str) -> None:
    cookie = "" if path == "/login-form" else cookie_of(desk)
    outline = Outline()
    outline.feed(page(desk, "/" if path == "/login-form" else path, cookie).text)
    assert outline.language == "en"
    assert outline.title.endswith("dpbandits")
    assert outline.unnamed == []
    assert set(outline.fields) <= outline.labels
    assert outline.headings[0] == 1
    assert outline.headings.count(1) == 1
    assert all(
        below - above <= 1 for above, below in zip(outline.headings, outline.headings[1:], strict=False)
    )
    assert {"main", "header", "footer"} <= set(outline.landmarks)


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", [0, 1, 2], ids=["light", "dark", "print"])
def test_colours_have_contrast(theme: int) -> None:
    style = resources.files("dpbandits.service.desk").joinpath("desk.css").read_text()
    blocks = [dict(re.findall(r"--(\w+): (#\w{6})", one)) for one in re.findall(r":root \{[^}]*\}", style)]
    colours = {**blocks[0], **blocks[theme]}
    for ink in ("ink", "quiet", "link"):
        for paper in ("paper", "raised"):
            assert contrast(colours[ink], colours[paper]) >= 4.5, (ink, paper)
    assert contrast(colours["paper"], colours["link"]) >= 4.5  # a button
    if theme < 2:
        assert contrast(colours["ink"], colours["said"]) >= 4.5
        assert contrast(colours["used"], colours["rest"]) >= 3
        assert contrast(colours["edge"], colours["paper"]) >= 3  # what has the focus
