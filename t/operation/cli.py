# SPDX-License-Identifier: BSD-3-Clause
"""The command line of the program where it ends at once. It checks exit statuses and messages of memcached 1.6.45, help, versions,
and refused arguments. t/unit/conf/conf.cc has every flag and suboption."""
import os
import socket
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from farcached import run_binary, tap  # noqa: E402

TOP = os.environ.get("abs_top_srcdir") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("abs_top_builddir", os.getcwd())
ROOT = os.geteuid() == 0
LOOPBACK = ["-l", "127.0.0.1", "-p", "-1"]


def ends(args, status, err="", out=b"", env=None, name=None, as_is=False):
    """The program ends with the status, and stderr ends with `err`."""
    args = args.split() if isinstance(args, str) else args
    got, stdout, stderr = run_binary(*args, env=env, as_is=as_is)
    name = name or " ".join(args)
    tap.is_(got, status, name + ": exit status")
    tap.ok(stderr.decode("latin-1").endswith(err), name + ": message", "got: %r" % stderr, "want: %r" % err)
    if out is not None:
        tap.is_(stdout, out, name + ": nothing else on stdout" if not out else name + ": stdout")


def occupied():
    """A port that is in use while the socket exists."""
    s = socket.socket()
    s.bind(("127.0.0.1", 0))
    s.listen()
    return s, s.getsockname()[1]


# -- The process contract ----------------------------------------------------------------------------

if ROOT:
    ends("-l 127.0.0.1 -p -1", 64, "must add '-u root' to start as root\n", as_is=True,
         name="root without -u")
    ends("-u nosuchuser -l 127.0.0.1 -p -1", 67, "can't find the user nosuchuser to switch to\n", as_is=True)
else:
    tap.skip("root without -u", "not root")
    tap.skip("-u nosuchuser", "not root")

HELD = "Address already in use by %s, process %d; stop it, or choose another address\n"
with open("/proc/self/comm", encoding="latin-1") as comm:
    HELD %= comm.read().strip(), os.getpid()
taken, port = occupied()
ends("-l 127.0.0.1 -p %d" % port, 71, "bind(): tcp:127.0.0.1:%d: %s" % (port, HELD) +
     "failed to listen on one of interface(s) 127.0.0.1: Address already in use\n", name="port in use")
ends("-l 127.0.0.2:0,127.0.0.1:%d -p -1" % port, 71, "failed to listen on one of interface(s) "
     "127.0.0.2:0,127.0.0.1:%d: Address already in use\n" % port, name="one of two ports in use")
ends("-l 127.0.0.1 -p %d -d" % port, 71,
     "failed to listen on one of interface(s) 127.0.0.1: Address already in use\n",
     name="port in use, in the background")
taken.close()
everywhere = socket.socket(socket.AF_INET6)
everywhere.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
everywhere.bind(("::", 0))
everywhere.listen()
port = everywhere.getsockname()[1]
ends("-p %d" % port, 71, "failed to listen on TCP port %d: Address already in use\n" % port,
     name="port in use, without -l")
for at in ("127.0.0.1", "[::1]"):
    ends(["-l", "%s:%d" % (at, port)], 71, "%s:%d: %sfailed to listen on one of interface(s) %s:%d: Address already in use\n"
         % (at, port, HELD, at, port), name="a port in use at all addresses, at " + at)
ends(["-l", "127.0.0.1", "-p", "-1", "--http", str(port)], 71, "--http 127.0.0.1:%d: %s" % (port, HELD), name="--http in use")
status, out, got = run_binary("--tcp", "127.0.0.1:%d" % port, binary=os.path.join(BUILD, "farnode"))
tap.is_((status, got.decode()), (71, "bind: cannot listen at tcp:127.0.0.1:%d: %s" % (port, HELD)), "a node's port in use")
everywhere.close()
ends("-l 192.0.2.1:5", 71, "bind(): tcp:192.0.2.1:5: Cannot assign requested address\nfailed to listen on one of interface(s) "
     "192.0.2.1:5: Cannot assign requested address\n", name="an address of no interface")
with tempfile.NamedTemporaryFile() as plain:
    ends(["-s", plain.name], 71, "%s: a file exists that is not a socket\nbind(): Address already in use\nfailed to listen on "
         "UNIX socket: %s: Address already in use\n" % (plain.name, plain.name), name="-s of another file")

status, out, got = run_binary("-l", "300.1.1.1", "-p", "-1")
tap.is_(status, 71, "-l 300.1.1.1: exit status")
tap.like(got, r"(?m)^getaddrinfo\(\): .+$", "-l 300.1.1.1: the message has getaddrinfo's reason")
tap.like(got, r"(?m)^failed to listen on one of interface\(s\) 300\.1\.1\.1: ", "-l 300.1.1.1: the message names the failure")
got = run_binary("-s", "/nonexist/s")
tap.is_(got[0], 71, "-s in a folder that is not there: exit status")
tap.like(got[2], r"\Abind\(\): No such file or directory\nfailed to listen on UNIX socket: /nonexist/s",
         "-s in a folder that is not there: message")

ends(["-p", "99999"], 64, "ERROR: Invalid port number 99999.\n")
ends(LOOPBACK + ["-t", "0"], 1, "Number of threads must be greater than 0\n")
ends(LOOPBACK + ["-c", "0"], 1, "Maximum connections must be greater than 0\n")
ends(LOOPBACK + ["-f", "1"], 1, "Factor must be greater than 1\n")
ends(LOOPBACK + ["-I", "512"], 64, "Item max size cannot be less than 1024 bytes.\n")
ends(LOOPBACK + ["-I", "10g"], 64, "Item max size cannot be less than 1024 bytes.\n")
ends(LOOPBACK + ["-B", "foo"], 64,
     "Invalid value for binding protocol: foo\n -- should be one of auto, binary, or ascii\n")
ends(["--foo"], 1, "Illegal argument \"?\"\n")
ends(["-o", "foo"], 1, "Illegal suboption \"foo\"\n")
for program in ("farcached", "farnode"):
    status, out, got = run_binary("--memory-limt=5", binary=os.path.join(BUILD, program))
    tap.is_((status, got.decode().split("\n", 1)[1]), (1, "did you mean --memory-limit?\nIllegal argument \"?\"\n"),
            program + " names the nearest option")
    status, out, got = run_binary("here", "-t", "2", binary=os.path.join(BUILD, program))
    tap.is_((status, got), (64, b"'here' is not an option\n"), program + " refuses further words")
ends(["-l", "127.0.0.1:x"], 71, "failed to listen on one of interface(s) 127.0.0.1:x: Invalid argument\n")
ends(["-c", "2000000000"], 71, "failed to set rlimit for open files. Try starting as root or requesting "
     "smaller maxconns value.\n", name="-c above the system's limit")

status, out, err = run_binary(*LOOPBACK, "-m", "1000000000")
tap.is_(status, 71, "-m above the maximum: exit status")
tap.like(err, r"\Afailed to get 1000000000 megabytes of memory: ", "-m above the maximum: message")

# -- Options that print and exit ------------------------------------------------------------------------

ends(["-V"], 0, out=b"memcached 1.6.45\n", as_is=True)
ends(["--version"], 0, out=b"memcached 1.6.45\n", as_is=True)
status, out, err = run_binary("--version-full", as_is=True)
tap.like(out, r"\Amemcached 1\.6\.45\nfarcached \d+\.\d+\.\d+\n(liburing \S+|without liburing)\n"
         r"(libseccomp \S+|without libseccomp)\n(OpenSSL \S+|without OpenSSL)\n(libsasl2 \S+|without libsasl2)\n"
         r"(libcurl \S+|without libcurl)\n(c-ares \S+|without c-ares)\n\Z",
         "--version-full names both, and whether io_uring, filters of system calls, TLS, SASL, etcd and DNS are built in")
for flag in ("-h", "--help"):
    status, out, err = run_binary(flag, as_is=True)
    tap.is_(status, 0, flag + ": exit status")
    tap.like(out, r"\Amemcached 1\.6\.45\n", flag + " begins with the version")
    tap.like(out, r"-p, --port=<num>", flag + " names options")
    tap.is_(err, b"", flag + ": nothing on stderr")
for flag in ("-i", "--license"):
    status, out, err = run_binary(flag, as_is=True)
    tap.is_(status, 0, flag + ": exit status")
    with open(os.path.join(TOP, "LICENSE"), "rb") as f:
        tap.ok(f.read() in out, flag + " prints LICENSE")
status, out, err = run_binary("--print-options-man", as_is=True)
tap.like(out, r"(?m)^\.SS ", "--print-options-man prints roff")
tap.ok(b"print-options-man" not in run_binary("-h", as_is=True)[1], "which is not in the help")

# -- Options that are not supported ----------------------------------------------------------------------

for args, what in (("-S -B ascii", "You cannot allow the ASCII protocol|not built with SASL"),
                   ("-Y /nonexist", "cannot read the passwords"),
                   ("-Z", "Error loading the certificate chain|not built with TLS support"),
                   ("-o proxy_config=/tmp/x", "is not implemented"), ("-U 11211 -Y /nonexist", "Cannot use UDP with ascii"),
                   ("-U 65536", "Invalid port number")):
    status, out, err = run_binary(*(LOOPBACK + args.split()))
    tap.ok(status not in (0, None) and status > 0, args + " is refused", "status %s" % status)
    tap.like(err, what, args + " says why")

tap.done()
