"""The command line: one module for each command, all of them light until they are called.

Data goes to stdout, words to stderr. Every failure is one sentence and the exit code of its class in
`icdc.errors`; set ICDC_DEBUG=1 to see the traceback of an unexpected one.
"""

import contextlib
import ctypes
import errno
import os
import re
import signal
import sys
import threading
import traceback
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from .. import __version__
from ..errors import IcdcError, InputError, Surface, shown_on, visible
from ..jit import BACKGROUND, SEARCH, compiling
from .benchmark import evaluate, generate
from .checks import check_problem, info, models, verify
from .interrupts import WORDS, current, listening
from .serve import serve
from .solve import solve
from .train import finetune, train

INTERRUPTED = 130
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
NO_MEMORY = re.compile(r"OutOfMemoryError|can't allocate memory")
"""What torch says where there is not enough memory, on a GPU and on a CPU."""
RULES = (
    (r"greater than or equal to (\S+)", "at least {}"),
    (r"less than or equal to (\S+)", "at most {}"),
    (r"greater than (\S+)", "more than {}"),
    (r"less than (\S+)", "less than {}"),
    (r"a valid integer", "a whole number"),
    (r"a valid number", "a number"),
)
"""What typer says of numbers that do not fit, and what we say."""
MISTAKES: tuple[type[Exception], ...] = typer.BadParameter.__bases__
"""What typer raises for any mistake in the options."""

app = typer.Typer(
    name="icdc",
    help="Feasible, checked solutions of matrix-shaped problems, from a learned diffusion model.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(solve)
app.command()(verify)
app.command()(generate)
app.command()(train)
app.command()(finetune)
app.command()(evaluate)
app.command()(serve)
app.command()(models)
app.command()(info)
app.command("check-problem")(check_problem)


def _print_version(value: bool) -> None:
    if value:
        print(f"icdc {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Feasible, checked solutions of matrix-shaped problems, from a learned diffusion model."""


def run(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    _keep_freed_memory()
    with listening() as interrupts, shown_on(Surface.SHELL):
        try:
            words = sys.argv[1:] if arguments is None else list(arguments)
            code = app(args=words, prog_name="icdc", standalone_mode=False)
        except SystemExit as stop:
            if isinstance(stop.__context__, BrokenPipeError):  # which typer ends by
                return _flushed(0)
            return _flushed(stop.code if isinstance(stop.code, int) else int(stop.code is not None))
        except IcdcError as error:
            _say(str(error))
            return error.exit_code
        except MISTAKES as error:
            return _usage(error)
        except KeyboardInterrupt:
            _say(interrupts.word)
            return interrupts.exit_code
        except OSError as error:
            if error.errno in NO_ROOM and error.filename is None:
                return _unwritten(error)
            if error.filename is None or os.environ.get("ICDC_DEBUG"):
                return _unexpected(error)
            _say(f"{os.fsdecode(error.filename)}: cannot be used ({error.strerror})")
            return InputError.exit_code
        except Exception as error:
            if isinstance(error, MemoryError) or NO_MEMORY.search(f"{type(error).__name__} {error}"):
                _say("there is not enough memory for this; try fewer or smaller instances, samples or batches")
                return 1
            return _unexpected(error)
        if code == INTERRUPTED:  # what typer makes of every KeyboardInterrupt
            code = interrupts.exit_code
        return _flushed(code if isinstance(code, int) else 0)


def _unexpected(error: Exception) -> int:
    """Say that something went wrong that should not have, on request with all there is to know."""
    if os.environ.get("ICDC_DEBUG"):
        traceback.print_exc()
    else:
        reason = " ".join(str(error).split())
        _say(f"internal error: {type(error).__name__}: {reason} (ICDC_DEBUG=1 shows where)")
    return 1


def _usage(error: Any) -> int:
    """Say in a sentence what is wrong with the options; without any argument at all, show the help."""
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return 2
    message = _plain_sentence(" ".join(error.format_message().split()).rstrip("."))
    command = error.ctx.command_path if error.ctx is not None else "icdc"
    _say(f"{message[0].lower()}{message[1:]} (see {command} --help)")
    return 2


def _plain_sentence(message: str) -> str:
    """Return what typer says of a value in the words of all other sentences: `--samples must be at least 1`."""
    match = re.fullmatch(r"Invalid value for '?(?P<option>[^':]+)'?: Input should be (?P<rule>.+)", message)
    if match is None:
        return message
    for pattern, words in RULES:
        if rule := re.match(pattern, match["rule"]):
            return f"{match['option']} must be {words.format(*rule.groups())}"
    return message


def main() -> None:
    """Entry point of the `icdc` command."""
    for number in WORDS:
        # heard while the command runs; afterwards its answer is out, and the exit code stands
        signal.signal(number, lambda *_: None)
    code = run()
    if any(thread.name.startswith(BACKGROUND) for thread in threading.enumerate()):
        # a compiler or an import whose work is not waited for
        if compiling(SEARCH):
            from ..search.precompile import compile_in_background

            compile_in_background()
        _end_at_once(code)
    if current.came:
        _end_at_once(code)  # threads of libraries that were interrupted, such as CP-SAT's, may not survive a slow end
    sys.exit(code)


def _end_at_once(code: int) -> None:
    """End without waiting for threads; files have been written."""
    _flushed(code)
    sys.stderr.flush()
    os._exit(code)


def _keep_freed_memory() -> None:
    """Let the C library keep what is freed: tensors come and go, and fetching them anew takes a fifth of the time.

    Only glibc can be told so; elsewhere nothing happens.
    """
    trim_threshold, mmap_threshold = -1, -3
    with contextlib.suppress(AttributeError, OSError, TypeError):
        library = ctypes.CDLL(None)
        for parameter in (trim_threshold, mmap_threshold):
            library.mallopt(parameter, 2**30)


def _say(sentence: str) -> None:
    print(f"icdc: {visible(sentence)}", file=sys.stderr)


def _flushed(code: int) -> int:
    """Write out what is buffered now: a reader that has gone away (`icdc … | head`) is not an error, a full disk is."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _write_nowhere()
    except OSError as error:
        return _unwritten(error)
    return code


def _unwritten(error: OSError) -> int:
    """Say that what is printed has no room, such as on a full disk that standard output is sent to."""
    _write_nowhere()
    _say(f"standard output cannot be written ({error.strerror})")
    return InputError.exit_code


def _write_nowhere() -> None:
    """Give the interpreter, which flushes again on exit, somewhere to write."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
