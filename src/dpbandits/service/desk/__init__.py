"""The desk: pages for whoever answers for privacy: what was promised, spent and released, in one place.

Plain pages, written on the server, without a script: nothing on them needs one. Every number is a release,
part of a configuration, or traffic; no page holds a context, a reward, a user or a candidate.

- `pages`: the routes. `sessions`: who is logged in. `pictures`: released functions as numbers and pictures.
"""

__all__: list[str] = []
