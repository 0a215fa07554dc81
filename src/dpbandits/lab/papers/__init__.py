"""One folder a paper: its worlds, its methods, its figures and tables as cells of a study."""
