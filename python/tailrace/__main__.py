"""`python -m tailrace`, and the installed command."""

import signal

# Until `main` has its handlers, Ctrl-C ends the process at once. Python would show a traceback of its imports.
if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from tailrace.cli import main

if __name__ == "__main__":
    main()
