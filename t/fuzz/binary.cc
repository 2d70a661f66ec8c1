// SPDX-License-Identifier: BSD-3-Clause
// Fuzz target: the binary parser alone, whole and in pieces, then the engine on a small node, without and with SASL. Checked:
// pieces change neither what is parsed nor what is answered; views stay inside the input; replies are whole packets; before a
// client has authenticated it gets errors, the version and what SASL answers.
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "daemon/remote/cluster_view.h"
#include "process/log.h"
#include "protocol/binary.h"
#include "t/unit/daemon/binary_fixture.h"

namespace {

using namespace farcached::protocol;

constexpr uint32_t value_bytes_max = 4096;  // larger ones are refused, as an engine does

void insist(bool good) {
    if (!good) std::abort();
}

// A session around the parser: records the parsed requests.
class Reader {
  public:
    std::string seen;
    bool uses_cas = false;

    void feed(std::string_view bytes) {
        held_.append(bytes);
        while (!closed_ && step()) {
        }
    }

  private:
    bool step() {
        size_t thrown = swallow_ < held_.size() ? size_t(swallow_) : held_.size();
        held_.erase(0, thrown);
        swallow_ -= thrown;
        if (held_.empty()) return false;
        BinaryParse parse = parse_binary(held_);
        switch (parse.status) {
            case BinaryParse::Status::need_more:
                insist(parse.head_bytes > held_.size());
                insist(parse.head_bytes <= binary_head_bytes_max);
                return false;
            case BinaryParse::Status::close:
                seen += "close";
                closed_ = true;
                return false;
            case BinaryParse::Status::error:
                seen += "error" + std::to_string(int(parse.error)) + " of " +
                        std::to_string(parse.request.opaque);
                closed_ = true;
                return false;
            case BinaryParse::Status::request: break;
        }
        return take(parse);
    }
    bool take(const BinaryParse& parse) {
        const BinaryRequest& r = parse.request;
        insist(parse.head_bytes >= binary_header_bytes);
        insist(parse.head_bytes <= held_.size());
        insist(r.key.size() <= farcached::limits::key_bytes_max);
        if (!r.key.empty()) insist(r.key.data() >= held_.data() + binary_header_bytes);
        if (!r.key.empty()) insist(r.key.data() + r.key.size() == held_.data() + parse.head_bytes);
        bool keeps = binary_takes_value(r.verb) && parse.value_bytes <= value_bytes_max;
        size_t total = parse.head_bytes + (keeps ? parse.value_bytes : 0);
        if (held_.size() < total) return false;
        if (r.cas != 0) uses_cas = true;
        seen += std::to_string(int(r.verb)) + (r.quiet ? "q" : "") + (r.with_key ? "k" : "");
        for (uint64_t n : {uint64_t(r.opcode), uint64_t(r.opaque), r.cas, uint64_t(r.flags),
                           uint64_t(r.exptime), r.delta, r.initial})
            seen += " " + std::to_string(n);
        seen += " " + std::string(r.key) + " " +
                held_.substr(parse.head_bytes, total - parse.head_bytes);
        seen += "\n";
        swallow_ = keeps ? 0 : parse.value_bytes;
        held_.erase(0, total);
        return true;
    }

    std::string held_;
    uint64_t swallow_ = 0;
    bool closed_ = false;
};

// The replies without their cas: it depends on the mutations before.
std::string without_cas(const std::string& bytes) {
    std::vector<packets::Packet> replies;
    insist(packets::split(bytes, replies));
    std::string out;
    for (packets::Packet& p : replies) {
        insist(p.magic == 0x81);
        p.cas = 0;
        out += p.bytes();
    }
    return out;
}

// nullptr: without libsasl2. A user a with the password b, and mechanisms without random challenges.
const farcached::daemon::Sasl* library() {
    static const std::unique_ptr<farcached::daemon::Sasl> made = [] {
        char name[] = "/tmp/farcached-fuzz-sasl-XXXXXX";
        insist(mkdtemp(name) != nullptr);
        const std::string folder = name, config = folder + "/memcached.conf", passwords = folder + "/passwords";
        std::ofstream(config) << "mech_list: plain login\nauxprop_plugin: none\n";
        std::ofstream(passwords) << "a:b\n";
        setenv("SASL_CONF_PATH", folder.c_str(), 1);
        setenv("MEMCACHED_SASL_PWDB", passwords.c_str(), 1);
        farcached::process::set_log(farcached::process::Level::error, farcached::LogFormat::text);
        auto started = farcached::daemon::Sasl::start();
        const bool good = std::holds_alternative<std::unique_ptr<farcached::daemon::Sasl>>(started);
        std::atexit([] { std::filesystem::remove_all(std::filesystem::path(std::getenv("SASL_CONF_PATH"))); });
        return good ? std::get<0>(std::move(started)) : nullptr;
    }();
    return made.get();
}

// The replies to a client that may not have authenticated.
void check_locked(const std::string& bytes) {
    std::vector<packets::Packet> replies;
    insist(packets::split(bytes, replies));
    for (const packets::Packet& p : replies) {
        if (p.opcode == 0x21 || p.opcode == 0x22)
            if (p.status == 0) return;
        const bool precedes = binary_precedes_authentication(p.opcode);
        const bool impossible = p.status == 0x81 || (p.status == 0x04 && !precedes);  // a header
        insist(precedes || impossible || p.status == 0x20);
        insist(!impossible || &p == &replies.back());
    }
}

std::string converse(std::string_view bytes, size_t piece, uint32_t budget, const farcached::daemon::Sasl* sasl) {
    static fixture::BinaryTalk* talk = [] {
        farcached::node::Config config = fixture::small_config();
        config.item_bytes_max = 64 * 1024;
        static farcached::daemon::ClusterView view;
        view.set({{"a", "10.0.0.1", 1}}, 1);
        auto* const made = new fixture::BinaryTalk(config);
        made->options.cluster = &view;
        return made;
    }();
    talk->closed = false;
    talk->session = farcached::daemon::SessionState();
    talk->options.sasl = sasl;
    talk->locked = sasl != nullptr;
    talk->exchange.reset();
    talk->drop_held();
    talk->budget = budget;
    talk->admin.told.clear();
    talk->node.flush_all(talk->context.now);
    return without_cas(talk->say_in_pieces(bytes, piece));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const std::string_view bytes(reinterpret_cast<const char*>(data), size);
    if (bytes.empty()) return 0;
    Reader whole;
    whole.feed(bytes);
    // Single bytes, and cuts that depend on the input: together, over many inputs, every split.
    Reader single;
    for (size_t at = 0; at < size; at++) single.feed(bytes.substr(at, 1));
    insist(single.seen == whole.seen);
    const size_t cut = (size_t(data[size - 1]) * 257 + data[size / 2]) % size;
    Reader two;
    two.feed(bytes.substr(0, cut));
    two.feed(bytes.substr(cut));
    insist(two.seen == whole.seen);

    for (const farcached::daemon::Sasl* sasl : {static_cast<const farcached::daemon::Sasl*>(nullptr), library()}) {
        const std::string heard = converse(bytes, size, 1000, sasl);
        const std::string in_pieces = converse(bytes, cut + 1, 1 + uint32_t(cut % 20), sasl);
        // A cas that matches by chance does so in one of the two only.
        if (!whole.uses_cas) insist(heard == in_pieces);
        if (sasl != nullptr) check_locked(heard);
    }
    return 0;
}
