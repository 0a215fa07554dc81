"""The desk: pages for whoever answers for privacy: what was promised, spent and released, in one place.

Plain pages, written on the server, without a script: nothing on them needs one. Every number is a release,
part of a configuration, or traffic; no page holds a context, a reward, a user or a candidate.

- `pages`: the routes. `sessions`: who is logged in. `learned`: what released functions say, as numbers.
- `drawing`: numbers as the points of a picture. `areas`: a local policy's arms as a map.
"""

__all__: list[str] = []
