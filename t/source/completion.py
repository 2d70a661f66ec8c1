# SPDX-License-Identifier: BSD-3-Clause
"""Bash's completions of the programs' words; zsh can parse its file."""
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from farcached import run_binary, tap  # noqa: E402

BUILD = os.environ.get("abs_top_builddir", os.getcwd())
ASK = """
source /dev/stdin <<'END_OF_COMPLETION'
%s
END_OF_COMPLETION
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_%s
printf '%%s\\n' "${COMPREPLY[@]}"
"""


def printed(program, shell):
    status, text, err = run_binary("--print-completion-" + shell, as_is=True, binary=os.path.join(BUILD, program))
    tap.ok(status == 0 and not err, "%s prints its completion for %s" % (program, shell))
    return text.decode()


def completed(text, *words, path=""):
    """The completions of the words, the last of which is incomplete. path: a folder with programs."""
    env = {**os.environ, "PATH": path + os.pathsep * bool(path) + os.environ["PATH"]}
    done = subprocess.run(["bash", "-c", ASK % (text, words[0]), "bash", *words], capture_output=True, text=True,
                          check=False, env=env)
    if done.returncode != 0 or done.stderr:
        return ["bash: status %d: %s" % (done.returncode, done.stderr)]
    return [word for word in done.stdout.split("\n") if word]


def test_bash():
    farcached = printed("farcached", "bash")
    tap.is_(completed(farcached, "farcached", "--memory-l"), ["--memory-limit"], "a long option")
    tap.is_(completed(farcached, "farcached", "--conf"), ["--config"], "that takes a file")
    tap.is_(completed(farcached, "farcached", "-o", "idle"), ["idle_timeout="], "a word of -o")
    tap.is_(completed(farcached, "farcached", "-o", "track_sizes,no_lru_c"), ["track_sizes,no_lru_crawler"],
            "behind another")
    farnode = printed("farnode", "bash")
    tap.is_(completed(farnode, "farnode", "--policy", "s"), ["s3fifo"], "a value of few")
    tap.is_(completed(farnode, "farnode", "--policy", "=", "pd"), ["pdla", "pdla_paper"], "behind =, too")
    farctl = printed("farctl", "bash")
    tap.is_(completed(farctl, "farctl", "re"), ["reload"], "a command")
    # The build folder may also contain products of make dist.
    tap.is_(completed(farctl, "farctl", "--socket", BUILD + "/farct"), [BUILD + "/farctl"], "a path")
    farbench = printed("farbench", "bash")
    tap.is_(completed(farbench, "farbench", "hit"), ["hitratio"], "a command of farbench")
    tap.ok("--connections" in completed(farbench, "farbench", "load", "--"), "and its options")


def test_arguments():
    """The program prints the words that may follow: here one that also prints its own."""
    farctl = printed("farctl", "bash")
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "farctl")
        with open(program, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\nprintf 'node_a\\nnode_b\\n'\nprintf 'got:%s\\n' \"$@\"\n")
        os.chmod(program, 0o755)
        tap.is_(completed(farctl, "farctl", "drain", "node", path=folder), ["node_a", "node_b"], "names of nodes")
        tap.is_(completed(farctl, "farctl", "--socket", "=", "/s", "--json", "stats", "node_a", "got", path=folder),
                ["got:--print-arguments", "got:--socket=/s", "got:--json", "got:stats", "got:node_a"],
                    "the program gets the words so far")
        tap.is_(completed(farctl, "farctl", "--socket", "=", "/s", "rou", path=folder), ["route"],
                "an option's value is no command")


def test_zsh():
    for program in ("farcached", "farnode", "farctl", "farbench"):
        text = printed(program, "zsh")
        tap.ok(text.startswith("#compdef %s\n" % program), "zsh's file names its programs")
        if shutil.which("zsh") is None:
            tap.skip("zsh reads it", "there is no zsh")
            continue
        done = subprocess.run(["zsh", "-n", "/dev/stdin"], input=text, capture_output=True, text=True, check=False)
        tap.ok(done.returncode == 0 and not done.stderr, "zsh reads it", done.stderr)


test_bash()
test_arguments()
test_zsh()
tap.done()
