"""``python -m dpbandits`` is the command ``dpbandits``."""

from dpbandits.cli.main import main

if __name__ == "__main__":
    main()
