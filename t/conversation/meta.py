# SPDX-License-Identifier: BSD-3-Clause
"""The meta commands over a real socket: each command, flag and error, as memcached 1.6.45 answers."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from farcached import Daemon, conversations, tap

GET = r"""
== mg of a missing key
> mg none\r\nmg none v\r\nmg none s v k O9\r\nmg none O9 k\r\nmg none q\r\nmg none v q k\r\nmn\r\n
< EN\r\nEN\r\nEN knone O9\r\nEN O9 knone\r\nMN\r\n

== mg, every flag that shows something, in the order asked for
> ms g1 3 F7 T100\r\nabc\r\nmg g1\r\nmg g1 v\r\nmg g1 s f k Ox\r\nmg g1 Ox k f s v\r\n
< HD\r\nHD\r\nVA 3\r\nabc\r\nHD s3 f7 kg1 Ox\r\nVA 3 Ox kg1 f7 s3\r\nabc\r\n
> mg g1 c t l h v\r\n
<~ VA 3 c\d+ t(100|99) l[01] h1
< abc\r\n
> mg g1 h s c v t q\r\n
<~ VA 3 h1 s3 c\d+ t(100|99)
< abc\r\n

== mg t of what never ends
> ms g2 0\r\n\r\nmg g2 t v\r\n
< HD\r\nVA 0 t-1\r\n\r\n

== mg h and u
> ms g3 1\r\nx\r\nmg g3 u h\r\nmg g3 v\r\nmg g3 h\r\n
< HD\r\nHD h0\r\nVA 1\r\nx\r\nHD h1\r\n

== mg T, in its place
> ms g4 1 T50\r\nx\r\nmg g4 T100 t\r\nmg g4 T0 t v\r\nmg g4 T-1\r\nmg g4\r\n
<~ HD
<~ HD t(100|99)
< VA 1 t-1\r\nx\r\nHD\r\nEN\r\n

== vivify: the first wins, the next are told
> mg g5 v N30 t\r\nmg g5 v N30\r\nget g5\r\nms g5 2 T60\r\nab\r\nmg g5 v N30\r\n
<~ VA 0 t(30|29) W
< \r\n
< VA 0 Z\r\n\r\nVALUE g5 0 0\r\n\r\nEND\r\nHD\r\nVA 2\r\nab\r\n

== vivify with a cas of one's own
> mg g6 N30 E777 c\r\nmg g6 c\r\n
< HD c777 W\r\nHD c777 Z\r\n

== mg C: no value for a client that has it
> ms g11 3 E700 F2 T0\r\nabc\r\nmg g11 C700 v s f c k t Ox\r\nmg g11 C699 v c\r\nmg g11 C700 v q\r\nmg g11 C700\r\nmg g11 C699\r\n
< HD\r\nHD s3 f2 c700 kg11 t-1 Ox\r\nVA 3 c700\r\nabc\r\nHD\r\nHD\r\nHD\r\n
> mg g11 v C700 c\r\nms g11 2 E701\r\nde\r\nmg g11 v C700 c\r\nmg g11 v u C701\r\nmg g11 v T60 C701 c\r\nmg g11n C700 v\r\n
< HD c700\r\nHD\r\nVA 2 c701\r\nde\r\nHD\r\nHD c701\r\nEN\r\n
> mg g11 v Cx\r\nmg g11 v C\r\nmg g11v N0 E5 C5 v c t\r\nmg g11 v\r\n
< {CLIENT_ERROR bad token in command line format\r\n*2}HD c5 t-1 W\r\nVA 2\r\nde\r\n

== recache: W, then Z
> ms g7 1 T20\r\nx\r\nmg g7 R10\r\nmg g7 R30\r\nmg g7 R30\r\nms g7 1 T90\r\nx\r\nmg g7 R30\r\n
< HD\r\nHD\r\nHD W\r\nHD Z\r\nHD\r\nHD\r\n

== stale: X W, then Z X, until it is set again
> ms g8 1\r\nx\r\nmg g8 v\r\nmd g8 I T30\r\nmg g8 v\r\nmg g8 v\r\nget g8\r\nms g8 1\r\ny\r\nmg g8 v\r\n
< HD\r\nVA 1\r\nx\r\nHD\r\nVA 1 X W\r\nx\r\nVA 1 Z X\r\nx\r\nVALUE g8 0 1\r\nx\r\nEND\r\nHD\r\nVA 1\r\ny\r\n

== mg and its errors
> mg\r\nmg g9 !\r\nmg g9 v v\r\nmg g9 S\r\nmg g9 N\r\nmg g9 Nx\r\nmg g9 Tx\r\nmg g9 Rx\r\nmg g9 Ex\r\n
< {CLIENT_ERROR bad command line format\r\n*2}CLIENT_ERROR duplicate flag\r\nCLIENT_ERROR invalid flag\r\n
< {CLIENT_ERROR bad token in command line format\r\n*5}
> mg {k*251}\r\nmg g9 q q\r\nmg g9 b c d e f g h i j k l m n o p q r s t\r\n
< CLIENT_ERROR bad command line format\r\nCLIENT_ERROR duplicate flag\r\nCLIENT_ERROR options flags are too long\r\n

== opaque: 31 bytes and 32
> mg g9 O{x*31}\r\nmg g9 O{x*32}\r\n
< EN O{x*31}\r\nCLIENT_ERROR opaque token too long\r\n

== flags for proxies are ignored
> ms g10 1 Pone Ltwo\r\nx\r\nmg g10 Pone Ltwo v\r\n
< HD\r\nVA 1\r\nx\r\n

== mn ends a quiet pipeline
> ms g11 1 q\r\nx\r\nmg g11 v q k\r\nmg g11none v q\r\nmd g11 q\r\nmg g11 q v\r\nmn\r\n
< VA 1 kg11\r\nx\r\nMN\r\n
== mn minds no words
> mn a b c\r\n
< MN\r\n
"""

BINARY = r"""
== keys in base64
> ms Zm9v 2 b k\r\nhi\r\nget foo\r\nmg foo k v\r\nmg Zm9v b k v\r\nmg Zm9v k v b q\r\n
< HD kZm9v b\r\nVALUE foo 0 2\r\nhi\r\nEND\r\nVA 2 kZm9v b\r\nhi\r\nVA 2 kZm9v b\r\nhi\r\nVA 2 kZm9v b\r\nhi\r\n
== bytes that no text could hold
> ms AAEC/w== 1 b\r\nx\r\nmg AAEC/w== b v k\r\nmd AAEC/w== b k\r\nmg AAEC/w== b k\r\n
< HD\r\nVA 1 kAAEC/w== b\r\nx\r\nHD kAAEC/w== b\r\nEN kAAEC/w== b\r\n
== a plain key asked for in base64 is shown plain
> ms bar 1\r\nx\r\nmg YmFy b k\r\n
< HD\r\nHD kbar\r\n
== what is not base64
> mg Zm9 b\r\nms Zm9 2 b\r\nhi\r\nmd Zm9 b\r\nma Zm9 b\r\nmn\r\n
< {CLIENT_ERROR error decoding key\r\n*3}CLIENT_ERROR invalid or duplicate flag\r\nMN\r\n
== ma with base64
> ma Y250 b N0 J5 v k\r\nma Y250 b v\r\nget cnt\r\n
< VA 1 kY250 b\r\n5\r\nVA 1\r\n6\r\nVALUE cnt 0 1\r\n6\r\nEND\r\n
== me, plain and in base64
> me none\r\nms m1 3 T100\r\nabc\r\nme m1\r\n
< EN\r\nHD\r\n
<~ ME m1 exp=(100|99) la=[01] cas=\d+ fetch=no cls=\d+ size=\d+
> ms AAEC 3 b\r\nabc\r\nme AAEC b\r\nmg AAEC b\r\nme AAEC b\r\nme\r\nme {k*251}\r\n
< HD\r\n
<~ ME AAEC exp=-1 la=[01] cas=\d+ fetch=no cls=\d+ size=\d+
< HD\r\n
<~ ME AAEC exp=-1 la=[01] cas=\d+ fetch=yes cls=\d+ size=\d+
< {CLIENT_ERROR bad command line format\r\n*2}
"""

SET = r"""
== ms, its modes
> ms s1 1 MR\r\nx\r\nms s1 1 ME\r\nb\r\nms s1 1 ME\r\nz\r\nms s1 1 MA s\r\nc\r\nms s1 1 MP s\r\na\r\nms s1n 1 MA\r\nx\r\n
> mg s1 v\r\nms s1 1 MR\r\nr\r\nms s1 1 MS\r\ns\r\nmg s1 v\r\nms s1 1 MX\r\nx\r\nmn\r\n
< NS\r\nHD\r\nNS\r\nHD s2\r\nHD s3\r\nNS\r\nVA 3\r\nabc\r\nHD\r\nHD\r\nVA 1\r\ns\r\n
< CLIENT_ERROR invalid mode for ms M token\r\nMN\r\n
== ms, append that vivifies
> ms s2 2 MA N30 s\r\nab\r\nms s2 1 MA N90\r\nc\r\nmg s2 v t\r\n
< HD s2\r\nHD\r\n
<~ VA 3 t(30|29)
< abc\r\n
== ms with a cas
> ms s3 1 C5\r\nx\r\nms s3 1 E100 c k Oq\r\nx\r\nms s3 1 C99 k Oq\r\ny\r\nms s3 1 C100 E101 c\r\nz\r\nmg s3 v c\r\n
< NF\r\nHD c100 ks3 Oq\r\nEX ks3 Oq\r\nHD c101\r\nVA 1 c101\r\nz\r\n
== ms with an old cas and I: stored, but stale
> ms s4 1 E100\r\nx\r\nms s4 1 C50 I\r\ny\r\nmg s4 v\r\nms s4 1 C18000000000000000000 I\r\nz\r\nmg s4 v\r\n
< HD\r\nHD\r\nVA 1 X W\r\ny\r\nEX\r\nVA 1 Z X\r\ny\r\n
== ms and lines that swallow nothing
> ms\r\nms s5\r\nms s5 x\r\nms s5 -1\r\nms s5 2 !\r\nmn\r\n
< {CLIENT_ERROR bad command line format\r\n*5}MN\r\n
== ms and lines that swallow their value
> ms s6 4 Tx\r\nmn\r\n\r\nms s6 4 Fx\r\nmn\r\n\r\nms s6 1 Cx\r\nx\r\nms s6 1 S\r\nx\r\nms s6 1 T1 T2\r\nx\r\nmn\r\n
< CLIENT_ERROR bad token in command line format\r\nCLIENT_ERROR bad command line format\r\n
< CLIENT_ERROR bad token in command line format\r\nCLIENT_ERROR invalid flag\r\nCLIENT_ERROR duplicate flag\r\nMN\r\n
> ms {k*251} 4\r\nmn\r\n\r\nms s6 4 O{x*32}\r\nmn\r\n\r\nmn\r\n
< CLIENT_ERROR bad command line format\r\nCLIENT_ERROR opaque token too long\r\nMN\r\n
== ms with bad data says so, quiet or not
> ms s7 2 q\r\nabcdef\r\nmg s7\r\n
< CLIENT_ERROR bad data chunk\r\n
< ERROR\r\nEN\r\n
== ms of what is too large
> ms s8 1\r\nx\r\nms s8 2000000 q\r\n{v*2000000}\r\nmg s8\r\n
< HD\r\nSERVER_ERROR object too large for cache\r\nEN\r\n
"""

REST = r"""
== numbers in tokens that no 32 or 64 bits hold, or that are not digits only, change nothing
> ms n1 1\r\nx\r\nmg n1 T2147483648\r\nmg n1 R2147483648\r\nmg n1 T+5\r\nmg n1 T\t5\r\nmd n1 I T2147483648\r\nmg n1 v t f\r\n
< HD\r\n{CLIENT_ERROR bad token in command line format\r\n*5}VA 1 t-1 f0\r\nx\r\n
> ms n1 1 T2147483648\r\ny\r\nms n1 1 C+1\r\ny\r\nms n1 1 E+1\r\ny\r\nms n1 1 E18446744073709551616\r\ny\r\nmg n1 v t\r\n
< {CLIENT_ERROR bad token in command line format\r\n*4}VA 1 t-1\r\nx\r\n
> ms n1 1 F+1\r\ny\r\nms n1 1 F4294967296\r\ny\r\nmg n1 v t\r\n
< {CLIENT_ERROR bad command line format\r\n*2}VA 1 t-1\r\nx\r\n
> mg n1 C+1 Fx\r\nmg n1 Fx C+1\r\nms n1 1 T- q\r\ny\r\nmg n1 t v\r\n
< {CLIENT_ERROR bad token in command line format\r\n*2}VA 1 t-1\r\ny\r\n
> mg n2 N2147483648\r\nmg n2 v\r\nma n2 N2147483648\r\nma n2 N0 J+1\r\nmg n2\r\n
< CLIENT_ERROR bad token in command line format\r\nEN\r\n{CLIENT_ERROR invalid or duplicate flag\r\n*2}EN\r\n
> ms n3 1\r\n5\r\nma n3 T2147483648\r\nma n3 D+1\r\nmg n3 v t\r\nmg n3 T2147483647\r\nmg n3 v\r\n
< HD\r\n{CLIENT_ERROR invalid or duplicate flag\r\n*2}VA 1 t-1\r\n5\r\nHD\r\nVA 1\r\n5\r\n
== me of a key in base64
> ms bWU= 1 b\r\nx\r\nms AAEC 1 b\r\nx\r\nme bWV4 b\r\nme !!! b\r\n
< HD\r\nHD\r\nEN\r\nCLIENT_ERROR bad command line format\r\n
> me bWU= b\r\n
<~ ME bWU= exp=-1 la=\d+ cas=\d+ fetch=no cls=\d+ size=\d+
> me AAEC b\r\n
<~ ME AAEC exp=-1 la=\d+ cas=\d+ fetch=no cls=\d+ size=\d+

== md
> md d1\r\nms d1 1\r\nx\r\nmd d1 k O5\r\nmd d1 q k O5\r\nms d1 1\r\nx\r\nmd d1 q\r\nmn\r\n
< NF\r\nHD\r\nHD kd1 O5\r\nNF kd1 O5\r\nHD\r\nMN\r\n
== md with a cas
> ms d2 1 E5\r\nx\r\nmd d2 C4\r\nmd d2 C4 q\r\nmd d2 C5\r\n
< HD\r\nEX\r\nEX\r\nHD\r\n
== md x: an empty value, no flags
> ms d3 3 F5 T90\r\nabc\r\nmd d3 x\r\nmg d3 s v f t\r\nget d3\r\n
< HD\r\nHD\r\nVA 0 s0 f0 t-1\r\n\r\nVALUE d3 0 0\r\n\r\nEND\r\n
== md x and I
> ms d4 3\r\nabc\r\nmd d4 x I T30 E9\r\nmg d4 s c v\r\n
< HD\r\nHD\r\nVA 0 s0 c9 X W\r\n\r\n
== md and its errors
> md\r\nmd d5 !\r\nmd d5 S\r\nmd d5 q q\r\nmd d5 Cx\r\nmd d5 Tx\r\n
< {CLIENT_ERROR bad command line format\r\n*2}CLIENT_ERROR invalid flag\r\nCLIENT_ERROR duplicate flag\r\n
< {CLIENT_ERROR bad token in command line format\r\n*2}
== ma
> ma a1\r\nma a1 q\r\nma a1 N0 J13 v t\r\nma a1 v\r\nma a1 D30 v\r\nma a1 MD D4 v\r\nma a1 M- v q\r\nma a1 MI k O1\r\nma a1 M+ v\r\n
< NF\r\nNF\r\nVA 2 t-1\r\n13\r\nVA 2\r\n14\r\nVA 2\r\n44\r\nVA 2\r\n40\r\nHD ka1 O1\r\nVA 2\r\n41\r\n
== ma that creates is silent with q, and a number that grows was not fetched
> ma a1q N0 q\r\nma a1q N0 q v\r\nmg a1q v\r\nms a1q 1\r\n9\r\nmg a1q\r\nma a1q\r\nmg a1q h\r\n
< VA 1\r\n1\r\nHD\r\nHD\r\nHD\r\nHD h0\r\n
== a number that grows is not stale any more, one that does not still is
> ms a1s 2\r\n10\r\nmd a1s I\r\nma a1s\r\nmg a1s k\r\nms a1s 1\r\n9\r\nmd a1s I\r\nma a1s\r\nmg a1s k\r\n
< HD\r\nHD\r\nHD\r\nHD ka1s X W\r\nHD\r\nHD\r\nHD\r\nHD ka1s\r\n
== a cas of 0 is older than none
> set c0 0 0 1\r\n1\r\nms c0 1 C0 I\r\n2\r\nms c0 1 C1 I\r\n3\r\nmg c0 v\r\n
< STORED\r\nEX\r\nHD\r\nVA 1 X W\r\n3\r\n
== ma with times and a cas
> ma a2 N30 J1 E50 t c\r\nma a2 C49\r\nma a2 C50 T60 E51 t c v\r\nmg a2 c\r\n
<~ HD t(30|29) c50
< EX\r\n
<~ VA 1 t(60|59) c51
< 2\r\nHD c51\r\n
== ma at the edges
> ms a3 1\r\n5\r\nma a3 MD D9 v\r\nms a3 20\r\n18446744073709551615\r\nma a3 v\r\nms a3 1\r\nx\r\nma a3 q\r\n
< HD\r\nVA 1\r\n0\r\nHD\r\nVA 1\r\n0\r\nHD\r\nCLIENT_ERROR cannot increment or decrement non-numeric value\r\n
== the first 23 words of a meta line decide what it is
> ma a4 v {f *19}! \r\nma a4 v {f *20}! \r\nms a4 1 {f *20}! \r\nx\r\n
< CLIENT_ERROR bad command line format\r\nCLIENT_ERROR invalid or duplicate flag\r\nCLIENT_ERROR options flags are too long\r\n
== ma and its errors
> ma\r\nma a4 !\r\nma a4 S\r\nma a4 q q\r\nma a4 Dx\r\nma a4 Jx\r\nma a4 Nx\r\nma a4 MX\r\n
< {CLIENT_ERROR bad command line format\r\n*2}{CLIENT_ERROR invalid or duplicate flag\r\n*5}
< CLIENT_ERROR invalid mode for ma M token\r\n
"""


def quiet_pipeline(daemon):
    """Replies that quiet mode omits, in a pipeline of a thousand requests, split at odd places."""
    with daemon.client() as client:
        said, heard = b"", b""
        for i in range(1000):
            said += b"ms q%d 3 q\r\nabc\r\n" % i
            said += b"mg q%d v k O%d q\r\n" % (i, i) + b"mg missing%d v k q\r\n" % i
            heard += b"VA 3 kq%d O%d\r\nabc\r\n" % (i, i)
        client.send_split(said + b"mn\r\n", sizes=(1, 1000, 77))
        want = heard + b"MN\r\n"
        tap.ok(client.upto(want) == want, "a thousand quiet commands: hits in order, then MN")


with Daemon(threads=2) as server:
    conversations(server, GET)
    conversations(server, BINARY)
    conversations(server, SET)
    conversations(server, REST)
    quiet_pipeline(server)
tap.done()
