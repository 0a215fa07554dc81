"""The desk: pages for privacy officers, with all guarantees, budgets and releases.

The pages are rendered on the server and use no script.

- `pages`: routes. `sessions`: logins. `pictures`: pictures and summaries of released functions.

Privacy: every number is a release, part of a configuration, or traffic. No page shows a context, a reward, a
user or a candidate.
"""

__all__: list[str] = []
