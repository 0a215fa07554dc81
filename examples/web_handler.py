"""
A web handler
=============

A WSGI function around a policy, for one process with any number of threads, as a policy has one holder. The
user comes from whoever logs people in and never from the request's body; a reward is taken from the user who
was answered; an error shows its kind and nothing of the request.
"""

import io
import json

import dpbandits as dpb

people = dpb.Schema(age=dpb.Range(18, 90), region=dpb.Categories(["north", "south", "west"]))
policy = dpb.central.GPBandit(
    contexts=people, arms=["mail", "call"], reward_range=(0, 1), horizon=50_000,
    privacy=dpb.JointDP(epsilon=1, delta=1e-6),
)  # fmt: skip
asked_by = {}


def app(environ, start_response):
    user, answer, status = environ["REMOTE_USER"], {}, "200 OK"
    try:
        request = json.loads(environ["wsgi.input"].read(min(10_000, abs(int(environ["CONTENT_LENGTH"])))))
        if environ["PATH_INFO"] == "/ask":
            decision = policy.ask(request["context"], user=user)
            asked_by[decision.id] = user
            answer = {"id": decision.id, "arm": decision.arm}
        elif asked_by.get(request["id"]) == user:
            answer = {"receipt": policy.tell(request["id"], request["reward"]).value}
        else:
            status = "404 Not Found"
    except (dpb.errors.DPBanditsError, KeyError, TypeError, ValueError) as error:
        answer, status = {"error": type(error).__name__}, "400 Bad Request"
    start_response(status, [("Content-Type", "application/json")])
    return [json.dumps(answer).encode()]


# %%
# Called as a server would call it.


def post(path, user, **body):
    data = json.dumps(body).encode()
    environ = {"PATH_INFO": path, "REMOTE_USER": user, "CONTENT_LENGTH": str(len(data))}
    said = []
    parts = app(environ | {"wsgi.input": io.BytesIO(data)}, lambda *line: said.extend(line))
    return said[0], json.loads(b"".join(parts))


status, offer = post("/ask", "u-17", context={"age": 44, "region": "west"})
print(status, offer["arm"] in ("mail", "call"))
print(post("/tell", "u-99", id=offer["id"], reward=1))  # another's
print(post("/tell", "u-17", id=offer["id"], reward=1))
print(post("/ask", "u-18", context={"age": "a secret"}))
