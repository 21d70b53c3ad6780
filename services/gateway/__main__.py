"""The gateway process."""

from services.gateway.process import main

if __name__ == "__main__":
    main()
