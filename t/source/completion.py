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


def completed(text, *words, path="", home=None):
    """The completions of the words, the last of which is incomplete. path: a folder with programs."""
    env = {**os.environ, "PATH": path + os.pathsep * bool(path) + os.environ["PATH"], "HOME": home or os.environ.get("HOME", "/")}
    done = subprocess.run(["bash", "-c", ASK % (text, os.path.basename(words[0])), "bash", *words], capture_output=True, text=True,
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


def write_program(folder):
    """A farctl that prints its words behind two others."""
    program = os.path.join(folder, "farctl")
    with open(program, "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\nprintf 'node_a\\nnode_b\\n'\nprintf 'got:%s\\n' \"$@\"\n")
    os.chmod(program, 0o755)


def test_arguments():
    """The program prints the words that may follow: here one that also prints its own."""
    farctl = printed("farctl", "bash")
    with tempfile.TemporaryDirectory() as folder:
        write_program(folder)
        tap.is_(completed(farctl, "farctl", "drain", "node", path=folder), ["node_a", "node_b"], "names of nodes")
        tap.is_(completed(farctl, "farctl", "--socket", "=", "/s", "--json", "stats", "node_a", "got", path=folder),
                ["got:--print-arguments", "got:--socket=/s", "got:--json", "got:stats", "got:node_a"],
                    "the program gets the words so far")
        tap.is_(completed(farctl, "farctl", "--socket", "=", "/s", "rou", path=folder), ["route"],
                "an option's value is no command")
        for name in (folder + "/farctl", "~/farctl"):
            tap.is_(completed(farctl, name, "drain", "node", home=folder), ["node_a", "node_b"], "by the path " + name)
        tap.is_(completed(farctl, "$HOME/farctl", "drain", "node", path=folder), ["node_a", "node_b"],
                "where the path cannot be run, by the program of PATH")
        tap.is_(completed(farctl, "farctl", "=", "got", path=folder), ["got:--print-arguments", "got:="], "a first word of =")


def test_zsh():
    for program in ("farcached", "farnode", "farctl", "farbench"):
        text = printed(program, "zsh")
        tap.ok(text.startswith("#compdef %s\n" % program), "zsh's file names its programs")
        if shutil.which("zsh") is None:
            tap.skip("zsh reads it", "there is no zsh")
            continue
        done = subprocess.run(["zsh", "-n", "/dev/stdin"], input=text, capture_output=True, text=True, check=False)
        tap.ok(done.returncode == 0 and not done.stderr, "zsh reads it", done.stderr)


ASK_ZSH = """
fpath=($1) words=("${(@)@[4,-1]}") CURRENT=$(($# - 3))
_arguments() { state=$asked_state; return $asked_status }
compadd() { shift; print -l -- "$@"; (($#)) }
asked_state=$2 asked_status=$3
autoload -U _farctl
_farctl
print "status $?"
"""


def test_zsh_arguments():
    """The file is run beside stand-ins of zsh's own functions."""
    if shutil.which("zsh") is None:
        return tap.skip("zsh's words that may follow", "there is no zsh")
    with tempfile.TemporaryDirectory() as folder:
        write_program(folder)
        with open(os.path.join(folder, "_farctl"), "w", encoding="utf-8") as file:
            file.write(printed("farctl", "zsh"))

        def asked(state, status, *words):
            done = subprocess.run(["zsh", "-f", "-c", ASK_ZSH, "zsh", folder, state, str(status), *words], capture_output=True,
                                  text=True, check=False, env={**os.environ, "HOME": folder})
            return done.stdout.split("\n")[:-1] + ([done.stderr] if done.stderr else [])
        both = ["node_a", "node_b", "got:--print-arguments", "got:drain", "status 0"]
        for name in (folder + "/farctl", "~/farctl"):
            tap.is_(asked("arguments", 1, name, "drain", ""), both, "zsh: words of the program " + name)
        tap.is_(asked("", 0, "farctl", "dr"), ["status 0"], "zsh: a command or an option that is completed succeeds")
        tap.is_(asked("", 1, "farctl", "nosuch"), ["status 1"], "zsh: no completion at all fails")


test_bash()
test_arguments()
test_zsh()
test_zsh_arguments()
tap.done()
