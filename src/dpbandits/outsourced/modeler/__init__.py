"""The modeler: an untrusted party that optimises over released rows."""
