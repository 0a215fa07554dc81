"""One file a paper: its tables and figures; and the study behind `dpbandits run`."""
