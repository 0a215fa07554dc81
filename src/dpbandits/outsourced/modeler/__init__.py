"""The modeler: a stranger who optimises over released rows."""
