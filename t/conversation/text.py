# SPDX-License-Identifier: BSD-3-Clause
"""The classic text protocol over a real socket: each command, each error, as memcached 1.6.45 answers."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from farcached import Daemon, conversations, tap

STORAGE = r"""
== set, get, gets
> set k1 5 0 3\r\nabc\r\nget k1\r\n
< STORED\r\nVALUE k1 5 3\r\nabc\r\nEND\r\n
> gets k1\r\n
<~ VALUE k1 5 3 \d+
< abc\r\nEND\r\n

== get of a missing key
> get nothing\r\ngets nothing nobody\r\n
< END\r\nEND\r\n

== several keys, in the order asked for
> set k2a 0 0 1\r\n1\r\nset k2b 7 0 2\r\n22\r\nget k2b none k2a k2b\r\n
< STORED\r\nSTORED\r\nVALUE k2b 7 2\r\n22\r\nVALUE k2a 0 1\r\n1\r\nVALUE k2b 7 2\r\n22\r\nEND\r\n

== add, replace
> replace k3 0 0 1\r\nx\r\nadd k3 1 0 1\r\ny\r\nadd k3 2 0 1\r\nz\r\nreplace k3 3 0 1\r\nw\r\nget k3\r\n
< NOT_STORED\r\nSTORED\r\nNOT_STORED\r\nSTORED\r\nVALUE k3 3 1\r\nw\r\nEND\r\n

== append, prepend ignore flags and exptime
> append k4 0 0 1\r\nx\r\nprepend k4 0 0 1\r\nx\r\nset k4 9 0 2\r\nbb\r\n
> append k4 1 -1 1\r\nc\r\nprepend k4 2 -1 1\r\na\r\nget k4\r\n
< NOT_STORED\r\nNOT_STORED\r\nSTORED\r\nSTORED\r\nSTORED\r\nVALUE k4 9 4\r\nabbc\r\nEND\r\n

== cas
> cas k5 0 0 1 1\r\nx\r\nset k5 0 0 1\r\nx\r\ncas k5 0 0 1 99999999\r\ny\r\n
< NOT_FOUND\r\nSTORED\r\nEXISTS\r\n
> cas k5 0 0 1\r\ny\r\ncas k5 0 0 1 x\r\ny\r\n
< CLIENT_ERROR bad command line format\r\nCLIENT_ERROR bad command line format\r\n

== delete, with words that mean nothing
> delete k6\r\nset k6 0 0 1\r\nx\r\ndelete k6 0\r\nset k6 0 0 1\r\nx\r\ndelete k6 10\r\ndelete k6 b c d e\r\n
< NOT_FOUND\r\nSTORED\r\nDELETED\r\nSTORED\r\nDELETED\r\nNOT_FOUND\r\n

== touch, gat, gats
> touch k7 0\r\ngat 0 k7\r\nset k7 4 0 1\r\nx\r\ntouch k7 100\r\ngat 100 k7 none\r\n
< NOT_FOUND\r\nEND\r\nSTORED\r\nTOUCHED\r\nVALUE k7 4 1\r\nx\r\nEND\r\n
> gats 0 k7\r\n
<~ VALUE k7 4 1 \d+
< x\r\nEND\r\n
> gat -1 k7\r\nget k7\r\n
< VALUE k7 4 1\r\nx\r\nEND\r\nEND\r\n
> touch k7 x\r\ngat x k7\r\ngat 0\r\ngat\r\ntouch k7\r\n
< CLIENT_ERROR invalid exptime argument\r\nCLIENT_ERROR invalid exptime argument\r\n
< CLIENT_ERROR bad command line format\r\nCLIENT_ERROR bad command line format\r\n
< CLIENT_ERROR bad command line format\r\n

== incr, decr
> set k8 0 0 2\r\n10\r\nincr k8 5\r\ndecr k8 1\r\ndecr k8 100\r\nincr k8none 1\r\ndecr k8none 1\r\n
< STORED\r\n15\r\n14\r\n0\r\nNOT_FOUND\r\nNOT_FOUND\r\n
> incr k8 x\r\nincr k8 18446744073709551616\r\ndecr k8 -1\r\nincr k8\r\n
< CLIENT_ERROR invalid numeric delta argument\r\nCLIENT_ERROR invalid numeric delta argument\r\n
< CLIENT_ERROR invalid numeric delta argument\r\nCLIENT_ERROR bad command line format\r\n

== an exptime of touch and gat that no 32 bits hold changes nothing
> set k7b 0 0 1\r\nx\r\ntouch k7b 2147483648\r\ntouch k7b 4294967296\r\ntouch k7b -2147483649\r\ntouch k7b +5\r\n
> touch k7b \t5\r\ntouch k7b 5\t\r\ngat 2147483648 k7b\r\ngats 2147483648 k7b\r\nmg k7b v t\r\n
< STORED\r\n{CLIENT_ERROR invalid exptime argument\r\n*8}VA 1 t-1\r\nx\r\n
> touch k7b 2147483648 noreply\r\ntouch k7b 2147483647\r\nget k7b\r\n
< TOUCHED\r\nVALUE k7b 0 1\r\nx\r\nEND\r\n
== a sign alone is 0
> touch k7b -\r\nmg k7b t\r\ngat - k7b\r\nset k7b 0 0 -\r\n\r\nget k7b\r\n
< TOUCHED\r\nHD t-1\r\nVALUE k7b 0 1\r\nx\r\nEND\r\nSTORED\r\nVALUE k7b 0 0\r\n\r\nEND\r\n

== numbers that are digits only
> set k8b 0 0 1\r\n5\r\nincr k8b +7\r\ndecr k8b +1\r\nincr k8b \t7\r\nincr k8b 7\t\r\nget k8b\r\n
< STORED\r\n{CLIENT_ERROR invalid numeric delta argument\r\n*4}VALUE k8b 0 1\r\n5\r\nEND\r\n
> cas k8b 0 0 1 +1\r\nx\r\ncas k8b 0 0 1 \t1\r\nx\r\nincr k8b\t7\r\nget k8b\r\n
< {CLIENT_ERROR bad command line format\r\n*3}VALUE k8b 0 1\r\n5\r\nEND\r\n
> set k8b \t6 +100 1\r\n6\r\nget k8b\r\n
< STORED\r\nVALUE k8b 6 1\r\n6\r\nEND\r\n

== incr at the edges
> set k9 0 0 20\r\n18446744073709551615\r\nincr k9 1\r\n
< STORED\r\n0\r\n
> set k9 0 0 3\r\n 12\r\nincr k9 1\r\n
< STORED\r\n13\r\n
> set k9 0 0 0\r\n\r\nincr k9 1\r\n
< STORED\r\nCLIENT_ERROR cannot increment or decrement non-numeric value\r\n
> set k9 0 0 2\r\n-1\r\nincr k9 1\r\n
< STORED\r\nCLIENT_ERROR cannot increment or decrement non-numeric value\r\n
> set k9 0 0 2\r\n-0\r\nincr k9 1\r\nset k9 0 0 21\r\n-18446744073709551615\r\nincr k9 1\r\n
< STORED\r\n1\r\nSTORED\r\n2\r\n
> set k9 0 0 21\r\n184467440737095516151\r\ndecr k9 1\r\n
< STORED\r\nCLIENT_ERROR cannot increment or decrement non-numeric value\r\n

== a shorter number keeps the length of the longer one
> set k9b 0 0 3\r\n100\r\ndecr k9b 1\r\nget k9b\r\ndecr k9b 98\r\nget k9b\r\nincr k9b 105\r\nget k9b\r\ndecr k9b 1000\r\nget k9b\r\n
< STORED\r\n99\r\nVALUE k9b 0 3\r\n99 \r\nEND\r\n1\r\nVALUE k9b 0 3\r\n1  \r\nEND\r\n
< 106\r\nVALUE k9b 0 3\r\n106\r\nEND\r\n0\r\nVALUE k9b 0 3\r\n0  \r\nEND\r\n
> set k9c 0 0 20\r\n18446744073709551615\r\nincr k9c 12\r\nget k9c\r\n
< STORED\r\n11\r\nVALUE k9c 0 20\r\n11{ *18}\r\nEND\r\n

== noreply everywhere
> set k10 0 0 1 noreply\r\n5\r\nadd k10 0 0 1 noreply\r\nx\r\nreplace k10 0 0 1 noreply\r\n6\r\n
> append k10 0 0 1 noreply\r\n0\r\nprepend k10 0 0 1 noreply\r\n1\r\nincr k10 1 noreply\r\ndecr k10 2 noreply\r\n
> touch k10 0 noreply\r\ncas k10 0 0 1 99999999 noreply\r\nx\r\nget k10\r\n
< VALUE k10 0 3\r\n159\r\nEND\r\n
> delete k10 noreply\r\ndelete k10 noreply\r\nverbosity 0 noreply\r\nincr k10 x noreply\r\n
> set k10 0 0 2 noreply\r\nabcdef\r\nget k10\r\n
< ERROR\r\nEND\r\n
"""

FORM = r"""
== lines too short to be a command
> \r\n
< CLIENT_ERROR bad command line format\r\n
> \x20\r\n
< CLIENT_ERROR bad command line format\r\n
> x\r\n
< CLIENT_ERROR bad command line format\r\n

== a bare newline ends a line, but not a value
> set f1 0 0 1\nx\r\nget f1\n
< STORED\r\nVALUE f1 0 1\r\nx\r\nEND\r\n
> set f1 0 0 2\r\nab\nget f1\r\n
< CLIENT_ERROR bad data chunk\r\n
< ERROR\r\n

== what is no command
> bogus\r\nGET f1\r\nget\tf1\r\n get f1\r\nflush\r\n
< {ERROR\r\n*5}
== a leading space
> \x20get f1\r\n
< ERROR\r\n

== spaces between and behind
> set  f2   0  0  1  \r\nx\r\nget   f2  \r\n
< STORED\r\nVALUE f2 0 1\r\nx\r\nEND\r\n
> get f2 \r\n
< VALUE f2 0 1\r\nx\r\nEND\r\n

== nothing behind the verb
> get\r\ngets\r\ndelete\r\nincr n\r\ntouch t\r\nmg\r\nset k 0 0\r\n
< {CLIENT_ERROR bad command line format\r\n*7}

== keys of 250 and 251 bytes
> set {k*250} 0 0 1\r\nx\r\nget {k*250}\r\n
< STORED\r\nVALUE {k*250} 0 1\r\nx\r\nEND\r\n
> get {k*251}\r\nset {k*251} 0 0 5\r\nget x\r\ndelete {k*251}\r\nincr {k*251} 1\r\ntouch {k*251} 0\r\n
< {CLIENT_ERROR bad command line format\r\n*5}
> get {k*250} {k*251}\r\ngat 0 {k*251}\r\n
< {CLIENT_ERROR bad command line format\r\n*2}

== control characters, high bytes and NUL in a key
> set a\x01\xff\x00b 0 0 1\r\nx\r\nget a\x01\xff\x00b\r\n
< STORED\r\nVALUE a\x01\xff\x00b 0 1\r\nx\r\nEND\r\n

== a value of any bytes
> set f3 0 0 8\r\n\x00\r\n\xff\x80\r\n \r\nget f3\r\n
< STORED\r\nVALUE f3 0 8\r\n\x00\r\n\xff\x80\r\n \r\nEND\r\n

== flags of 32 bits
> set f4 4294967295 0 1\r\nx\r\nget f4\r\nset f4 4294967296 0 1\r\nx\r\nget f4\r\n
< STORED\r\nVALUE f4 4294967295 1\r\nx\r\nEND\r\nSTORED\r\nVALUE f4 0 1\r\nx\r\nEND\r\n
> set f4 -1 0 5\r\nget x\r\nset f4 x 0 5\r\nget x\r\n
< {CLIENT_ERROR bad command line format\r\n*2}

> set f4 -0 -0 -0\r\n\r\nget f4\r\nset f4 -18446744073709551615 0 1\r\nx\r\nset f4b 7\x001 0 1\r\nx\r\nget f4 f4b\r\n
< STORED\r\nVALUE f4 0 0\r\n\r\nEND\r\nSTORED\r\nSTORED\r\nVALUE f4 1 1\r\nx\r\nVALUE f4b 7 1\r\nx\r\nEND\r\n

== a bad exptime swallows the value
> set f5 0 x 7\r\nversion\r\nset f5 0 x 7 noreply\r\nversion\r\nget f5\r\n
< CLIENT_ERROR bad command line format\r\nEND\r\n

== a length that is none does not
> set f6 0 0 x\r\nget f6\r\nset f6 0 0 -1\r\nget f6\r\nset f6 0 0 2147483648\r\nget f6\r\n
< {CLIENT_ERROR bad command line format\r\nEND\r\n*3}
> set f6 0 0 noreply\r\n
< CLIENT_ERROR bad command line format\r\n

== more words than a set has
> set f7 0 0 1 2 3\r\nx\r\n
< STORED\r\n

== too long, too short: the old value stays, the rest is read as commands
> set f8 0 0 1\r\nx\r\nset f8 0 0 2\r\nabcdef\r\nget f8\r\n
< STORED\r\nCLIENT_ERROR bad data chunk\r\nERROR\r\nVALUE f8 0 1\r\nx\r\nEND\r\n
> set f8 0 0 4\r\nab\r\nget f8\r\n
< CLIENT_ERROR bad data chunk\r\nERROR\r\n
> get f8\r\n
< VALUE f8 0 1\r\nx\r\nEND\r\n

== exptimes
> set e1 0 -1 1\r\nx\r\nset e2 0 2592001 1\r\nx\r\nset e3 0 2147483648 1\r\nx\r\nset e4 0 2592000 1\r\nx\r\n
> get e1 e2 e3 e4\r\nmg e4 t\r\n
< {STORED\r\n*4}VALUE e4 0 1\r\nx\r\nEND\r\n
<~ HD t(2592000|2591999)

== of an exptime that 32 bits do not hold, the lower 32 count
> set e5 0 4294967296 1\r\nx\r\nset e6 0 4294977296 1\r\nx\r\nset e7 0 6442450944 1\r\nx\r\nget e7\r\nmg e5 t\r\nmg e6 t\r\n
< {STORED\r\n*3}END\r\nHD t-1\r\n
<~ HD t(10000|9999)

== a line that never ends
> {x*3000}
!
== nor does a get-and-touch
> gat 0 {somekey *300}
!
== but a get may be of any length
> get {somekey *3000}\r\n
< END\r\n

== web browsers
> GET / HTTP/1.1\r\nHost: localhost\r\n\r\n
!
== and their forms
> POST /index HTTP/1.0\r\nContent-Length: 5\r\n\r\nabcde
!
== the binary protocol does not begin in the middle
> version\r\n\x80\x00\r\n
< VERSION 1.6.45\r\n
< ERROR\r\n
"""

ADMIN = r"""
== version
> version\r\n
< VERSION 1.6.45\r\n
== quit
> version\r\nquit\r\nversion\r\n
< VERSION 1.6.45\r\n
!
== verbosity
> verbosity\r\nverbosity 1\r\nverbosity invalid\r\nverbosity 1 2 3\r\nverbosity 0\r\n
< CLIENT_ERROR bad command line format\r\nOK\r\nCLIENT_ERROR bad command line format\r\nOK\r\nOK\r\n
== shutdown is off
> shutdown\r\n
< SERVER_ERROR: shutdown not enabled\r\n
== cache_memlimit
> cache_memlimit\r\ncache_memlimit 1\r\ncache_memlimit 64\r\ncache_memlimit 64 noreply\r\n
< ERROR\r\nMEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m\r\nOK\r\n
== slabs
> slabs\r\nslabs automove 1\r\nslabs automove invalid\r\nslabs automove 5\r\nslabs reassign 1 1\r\nslabs reassign 1 2\r\n
< ERROR\r\nOK\r\nCLIENT_ERROR bad command line format\r\nERROR\r\n
< SAME src and dst class are identical\r\nNOSPARE source class has no spare pages\r\n
== lru
> lru tune 10 80 0.2 2.0\r\nlru tune 10 20 0.2 2.0\r\nlru mode flat\r\nlru mode segmented\r\nlru temp_ttl 60\r\nlru foo\r\n
< ERROR hot and warm pcts must not exceed 80\r\nOK\r\nOK\r\nOK\r\nOK\r\nERROR\r\n
== lru_crawler
> lru_crawler tocrawl 0\r\nlru_crawler sleep 100\r\nlru_crawler sleep 1000001\r\n
< OK\r\nOK\r\nCLIENT_ERROR sleep must be one second or less\r\n
== refresh_certs
> refresh_certs\r\n
< Error TLS not enabled\r\n
== watch for what there is not, or behind another command
> watch foo\r\n
< ERROR\r\n
> version\r\nwatch\r\n
< VERSION 1.6.45\r\nERROR cannot pipeline other commands before watch\r\n
== metadump behind another command
> version\r\nlru_crawler metadump all\r\n
< VERSION 1.6.45\r\nERROR cannot pipeline other commands before metadump\r\n
"""

FLUSH = r"""
== flush_all
> set x 0 0 1\r\nx\r\nflush_all\r\nget x\r\nset x 0 0 1\r\nx\r\nflush_all 0\r\nget x\r\n
< STORED\r\nOK\r\nEND\r\nSTORED\r\nOK\r\nEND\r\n
> set x 0 0 1\r\nx\r\nflush_all -1\r\nget x\r\nset x 0 0 1\r\nx\r\nflush_all noreply\r\nget x\r\n
< STORED\r\nOK\r\nEND\r\nSTORED\r\nEND\r\n
> set x 0 0 1\r\nx\r\nflush_all x\r\nflush_all 1000\r\nflush_all 1000 noreply\r\nget x\r\n
< STORED\r\nCLIENT_ERROR invalid exptime argument\r\nOK\r\nVALUE x 0 1\r\nx\r\nEND\r\n
> flush_all\r\n
< OK\r\n
== metadump of an empty cache
> lru_crawler metadump all\r\n
< OK\r\nEND\r\n
== mgdump of an empty cache
> lru_crawler mgdump all\r\n
< OK\r\nEN\r\n
== a dump of what is no class
> lru_crawler metadump foo\r\n
< BADCLASS invalid class id\r\n
"""

LARGE = r"""
== too large: swallowed, the connection lives; a set takes the old item with it, a replace does not
> set big1 0 0 1\r\nx\r\nset big2 0 0 1\r\nx\r\n
> set big1 0 0 2000000\r\n{v*2000000}\r\nreplace big2 0 0 2000000\r\n{v*2000000}\r\nget big1 big2\r\n
< STORED\r\nSTORED\r\nSERVER_ERROR object too large for cache\r\nSERVER_ERROR object too large for cache\r\n
< VALUE big2 0 1\r\nx\r\nEND\r\n
> set big1 0 0 2000000 noreply\r\n{v*2000000}\r\nversion\r\n
< VERSION 1.6.45\r\n
> set big1 0 0 2000000000\r\n
< SERVER_ERROR object too large for cache\r\n
> {v*100000}
== a megabyte is too large, 512 bytes less is not
> set big3 0 0 1048576\r\n{v*1048576}\r\nset big3 0 0 1048064\r\n{v*1048064}\r\nget big3\r\n
< SERVER_ERROR object too large for cache\r\nSTORED\r\nVALUE big3 0 1048064\r\n{v*1048064}\r\nEND\r\n
"""


def large_reply(daemon):
    """64 MB of values for one line."""
    want = b"VALUE big3 0 1048064\r\n" + b"v" * 1048064 + b"\r\n"
    with daemon.client() as client:
        client.send(b"get" + b" big3" * 64 + b"\r\nversion\r\n")
        good = 0
        for _ in range(64):
            good += client.read(len(want)) == want
        tap.is_(good, 64, "64 values of a megabyte in one reply")
        client.expect(b"END\r\nVERSION 1.6.45\r\n", "and the line ends")


def many_keys(daemon):
    """100,000 keys in one line, sent in odd pieces."""
    with daemon.client() as client:
        client.set("mk", "v")
        keys = b" mk" + b" some_missing_key" * 99
        client.send_split(b"get" + keys * 1000 + b"\r\n", sizes=(70001, 3, 131072))
        want = b"VALUE mk 0 1\r\nv\r\n" * 1000 + b"END\r\n"
        tap.ok(client.upto(want) == want, "100,000 keys in one get")


with Daemon("-m", "128", threads=2) as server:
    conversations(server, STORAGE)
    conversations(server, FORM)
    conversations(server, ADMIN)
    many_keys(server)
    conversations(server, LARGE, fence=False)
    large_reply(server)
    conversations(server, FLUSH)
tap.done()
