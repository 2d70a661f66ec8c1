// SPDX-License-Identifier: BSD-3-Clause
// TLS of tcp channels: who is refused, with which words, and what a reload of the files changes. t/unit/fabric/channel.cc has
// what all channels do.
#include "fabric/peer_tls.h"

#include <sys/socket.h>

#include <csignal>
#include <fstream>
#include <string>

#include "t/lib/tap.h"
#include "t/unit/fabric/channel_fixture.h"
#include "t/unit/fabric/tls_fixture.h"

namespace {

using namespace farcached;
using namespace farcached::fabric;
using namespace channel_test;

#ifdef FARCACHED_OPENSSL

constexpr const char* place = "IP:127.0.0.1";

// One end's files, loaded.
struct Peer {
    PeerTls tls;
    explicit Peer(const PeerTls::Paths& paths) { tls.use(value_of(PeerTls::load(paths))); }
};

struct Met {
    bool client_up = false, server_up = false;
    std::string client_end, server_end, client_text, server_text;
};

// Connects and sends a word each way. Returns when both have arrived, or when an end is over. nullptr: without TLS.
Met meet(const PeerTls* proxy, const PeerTls* node, const std::string& host = "127.0.0.1") {
    const auto listener = value_of(TcpListener::listen(*numeric_address("127.0.0.1", 0), 4, {.tls = node}));
    End client, server;
    std::string there, here;
    client.take = [&](End&, std::string_view bytes) { return there += bytes, bytes.size(); };
    server.take = [&](End& end, std::string_view bytes) {
        here += bytes;
        end.channel->out().append("pong");
        return bytes.size();
    };
    // An end that is over closes its socket, which the other end notices.
    client.on_end = server.on_end = [](End& end) { end.channel.reset(); };
    client.channel = value_of(connect_tcp(listener->address(), client, {.tls = proxy, .host = host}));
    client.channel->out().append("ping, without a word of TLS");
    client.channel->flush();
    if (!accept_into(*listener, server, &client)) tap::bail_out("nobody connects");
    pump({&client, &server}, [&] {
        if (!server.over) server.channel->flush();
        return there == "pong" || (client.over && server.over);
    });
    Met met;
    met.client_up = there == "pong";
    met.server_up = here == "ping, without a word of TLS";
    met.client_end = client.ending(), met.server_end = server.ending();
    met.client_text = client.text, met.server_text = server.text;
    return met;
}

bool has(const std::string& text, const std::string& words) { return text.find(words) != std::string::npos; }

void refused(const char* about, const Met& met, const std::string& server_words, const std::string& client_words) {
    const std::string who = about;
    tap::ok(!met.client_up && !met.server_up, who + ": not a byte of a frame passes");
    tap::ok(has(met.server_text, server_words), who + ": the node says: " + met.server_text);
    tap::ok(has(met.client_text, client_words), who + ": the proxy says: " + met.client_text);
}

void who_is_refused(const Folder& folder) {
    const Authority ours(folder / ".", "ours"), theirs(folder / ".", "theirs");
    const Peer node(ours.issue("node", place)), proxy(ours.issue("proxy", "DNS:proxy.example"));
    const Peer stranger(theirs.issue("stranger", place)), elsewhere(ours.issue("elsewhere", "IP:127.0.0.2"));
    const Peer named(ours.issue("named", "DNS:a.example"));

    const Met met = meet(&proxy.tls, &node.tls);
    tap::ok(met.client_up && met.server_up, "two peers of one authority talk");
    tap::ok(meet(&proxy.tls, &named.tls, "a.example").client_up, "a certificate may name the host");
    refused("another name", meet(&proxy.tls, &named.tls, "b.example"), "alert", "hostname mismatch");
    refused("another address", meet(&proxy.tls, &elsewhere.tls), "alert", "IP address mismatch");
    refused("a node of another authority", meet(&proxy.tls, &stranger.tls), "alert", "certificate verify failed");
    PeerTls::Paths of_theirs = theirs.issue("intruder", place);
    of_theirs.issuers = folder / "ours.pem";
    const Peer intruder(of_theirs);
    refused("a proxy of another authority", meet(&intruder.tls, &node.tls), "certificate verify failed", "unknown ca");
    refused("a proxy without TLS", meet(nullptr, &node.tls), "TLS with the peer failed", "");
    tap::is(meet(nullptr, &node.tls).server_end, "tls", "a failure of TLS has a name");
}

void reloads(const Folder& folder) {
    const Authority before(folder / ".", "before"), after(folder / ".", "after");
    const PeerTls::Paths first = before.issue("first", place);
    Peer node(first);
    const Peer proxy(before.issue("proxy1", place)), next(after.issue("proxy2", place));
    tap::ok(meet(&proxy.tls, &node.tls).client_up, "before a reload");
    node.tls.use(value_of(PeerTls::load(after.issue("second", place))));
    tap::ok(meet(&next.tls, &node.tls).client_up, "after it: the new authority's");
    tap::ok(!meet(&proxy.tls, &node.tls).client_up, "a removed authority is trusted no more");
}

void bad_files(const Folder& folder) {
    const Authority authority(folder / ".", "good");
    const PeerTls::Paths good = authority.issue("peer", place), other = authority.issue("other", place);
    PeerTls::Paths paths = good;
    paths.certificate = folder / "none.pem";
    tap::ok(has(error_of(PeerTls::load(paths)), "none.pem: no certificate can be read (No such file or directory)"),
            "a missing certificate has a sentence");
    paths = good;
    paths.key = other.key;
    tap::ok(has(error_of(PeerTls::load(paths)), "other.key: no key of that certificate can be read (key values mismatch)"),
            "so has another certificate's key");
    paths = good;
    paths.issuers = good.key;
    tap::ok(has(error_of(PeerTls::load(paths)), "peer.key: no issuer's certificate can be read"), "and a file without issuers");
}

// The node ends a connection whose peer sends no TLS.
void garbage(const Folder& folder) {
    const Authority authority(folder / ".", "patient");
    const Peer node(authority.issue("host", place));
    const std::string records[] = {std::string(5, '\0'), "GET / HTTP/1.1\r\n\r\n", std::string("\x16\x03\x01\xff\xff", 5),
                                   std::string("\x16\x03\x01\x00\x04\x01\xff\xff\xff", 9), std::string(20'000, '\x16')};
    for (const std::string& record : records) {
        const auto listener = value_of(TcpListener::listen(*numeric_address("127.0.0.1", 0), 4, {.tls = &node.tls}));
        const Descriptor raw(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        SocketAddress at = listener->address();
        End server;
        if (connect(raw.get(), at.get(), at.size) != 0 || !accept_into(*listener, server)) tap::bail_out("connect");
        if (send(raw.get(), record.data(), record.size(), MSG_NOSIGNAL) < 0) tap::bail_out("send");
        shutdown(raw.get(), SHUT_WR);
        tap::ok(pump({&server}, [&] { return server.over; }),
                std::to_string(record.size()) + " bytes that are no TLS end the connection: " + server.text);
        tap::is(server.ending(), "tls", "as a failure of TLS");
    }
}

#endif

}  // namespace

int main() {
    std::signal(SIGPIPE, SIG_IGN);
#ifdef FARCACHED_OPENSSL
    const Folder folder;
    who_is_refused(folder);
    reloads(folder);
    bad_files(folder);
    garbage(folder);
#else
    tap::ok(!error_of(PeerTls::load({"a", "b", "c"})).empty(), "without OpenSSL the files are refused");
#endif
    return tap::done();
}
