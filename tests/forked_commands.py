"""The `tidemill` command as tests run it: as a fork of a process that has imported it (see tests/commands)."""

import atexit
import functools
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

REAL = str(Path(sys.executable).with_name("tidemill"))
PROGRAMS = Path(__file__).parent / "commands"


@functools.cache
def forked() -> str:
    """The path of a command that is the real one, but starts at once."""
    folder = Path(tempfile.mkdtemp(prefix="tidemill-commands-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    socket, log = folder / "socket", folder / "log"
    with log.open("wb") as output:
        server = subprocess.Popen(
            [sys.executable, "-P", str(PROGRAMS / "server.py"), str(socket)], stdout=output, stderr=output
        )
    atexit.register(server.wait)
    atexit.register(server.terminate)
    launcher = str(PROGRAMS / "launcher.py")
    command = folder / "tidemill"
    command.write_text(
        f"#!{sys.executable} -SE\n"
        f"import sys\nsys.argv[1:1] = {[REAL, str(socket)]!r}\n"
        f"exec(compile(open({launcher!r}).read(), {launcher!r}, 'exec'))\n"
    )
    command.chmod(0o755)
    return str(command)
