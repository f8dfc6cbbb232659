"""What a host runs for each event: `python -I -S <path of this file> HOST`, the payload on standard input.

Whatever happens here, the agent goes on: the exit status is 0 and the output is empty or valid for the host.
"""

import gc
import sys

gc.disable()  # one event makes no garbage worth looking for


def main() -> None:
    try:
        here = __file__.rsplit("/", 3)[0]
        if not here.startswith("/"):
            import os

            here = os.path.abspath(here)
        sys.path.append(here)
        import posix

        for fd in (0, 1, 2):  # one that is closed would go to the next file that is opened
            try:
                posix.fstat(fd)
            except OSError:
                posix.open("/dev/null", posix.O_RDWR)
        env = posix.environ
        home = env.get(b"MISSTEP_HOME", b"")
        if home[:1] != b"/":  # as _paths.home() has it
            user, state = env.get(b"HOME", b""), env.get(b"XDG_STATE_HOME", b"")
            if not home and state[:1] == b"/":
                home = state + b"/misstep"
            elif user[:1] != b"/":
                from misstep.guard import _paths

                home = _paths.home().encode("utf-8", "surrogateescape")
            elif home:
                home = user + b"/" + (home[2:] if home[:2] in (b"~/", b"./") else home)
            else:
                home = user + b"/.local/state/misstep"
        folder = home + b"/guard"
        host, data = sys.argv[1] if len(sys.argv) > 1 else "", None
        try:
            posix.stat(folder + b"/daemon")
        except OSError:
            pass
        else:
            from misstep.guard import _client

            data = _client.read_input()
            answer = _client.ask(folder + b"/daemon", host, data)
            if answer is not None:
                posix.write(1, answer)
                return
        from misstep.guard import _image

        image = _image.start(folder.decode())
        from misstep.guard.run import main as run

        run(host, data)
        image.learn()
    except BaseException as error:
        try:
            sys.stderr.write(f"misstep: {type(error).__name__}: {error}\n")
        except BaseException:
            pass
    finally:
        # Nothing that runs at an interpreter's end may change the exit status, or cost time.
        import posix

        posix._exit(0)


if __name__ == "__main__":
    main()
