"""SAM CLI as `sam`, less two waits of up to ten seconds where there is no network, and of up to one at each call.

Run it with the Python that scripts/venv.sh gives for requirements.txt.
"""

from samcli.lib.utils import version_checker
from samcli.local.docker.container import Container

# It asks once a week whether there is a newer version.
version_checker.is_version_check_overdue = lambda last: False

# It waits for the line that ends a call's log, and misses it where a chunk of output holds more than that line.
write = Container._handle_data_writing


def write_and_look(stream, data, event):
    write(stream, data, event)
    if event and b"REPORT RequestId:" in data:
        event.set()


Container._handle_data_writing = staticmethod(write_and_look)

if __name__ == "__main__":
    from samcli.cli.main import cli

    cli(prog_name="sam")
