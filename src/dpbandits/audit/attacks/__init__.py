"""Attacks through public calls: each makes an adversary whose success bounds a promise from below."""
