"""Tables and pictures of the results pages: a module a page, and what they share is in `pages`.

Each function reads what a command named on its page wrote into `reproduction/results`.
"""
