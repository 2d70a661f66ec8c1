// SPDX-License-Identifier: BSD-3-Clause
#include "t/load/consistency_client.h"

namespace consistency {
namespace {

constexpr std::string_view text_verbs[] = {"set", "add", "replace", "append", "prepend", "cas"};
constexpr std::string_view meta_modes[] = {"S", "E", "R", "A", "P", "S"};
constexpr uint8_t opcodes[] = {0x01, 0x02, 0x03, 0x0e, 0x0f, 0x01};

constexpr std::string_view unavailable = "SERVER_ERROR unavailable";

constexpr uint8_t opcode_get = 0x00, opcode_delete = 0x04, opcode_increment = 0x05,
                  opcode_flush = 0x08, opcode_noop = 0x0a, opcode_getkq = 0x0d, opcode_setq = 0x11,
                  opcode_touch = 0x1c, opcode_gat = 0x1d;

std::string four_bytes(uint32_t n) {
    std::string s;
    big_endian(s, n, 4);
    return s;
}

}  // namespace

Answer Client::word(std::string_view line) {
    if (line == "STORED" || line == "DELETED" || line == "TOUCHED" || line == "OK")
        return Answer::ok;
    if (line == "NOT_STORED") return Answer::refused;
    if (line == "EXISTS") return Answer::exists;
    if (line == "NOT_FOUND") return Answer::absent;
    if (line == unavailable) return Answer::unknown;
    throw Broken("text reply: " + std::string(line.substr(0, 200)));
}

Answer Client::meta_word(std::string_view line) {
    const std::string_view code = line.substr(0, 2);
    if (code == "HD") return Answer::ok;
    if (code == "NS") return Answer::refused;
    if (code == "EX") return Answer::exists;
    if (code == "NF" || code == "EN") return Answer::absent;
    if (line == unavailable) return Answer::unknown;
    throw Broken("meta reply: " + std::string(line.substr(0, 200)));
}

Answer Client::status(uint16_t status) {
    switch (status) {
        case 0:
            return Answer::ok;
        case 1:
            return Answer::absent;
        case 2:
            return Answer::exists;
        case 5:
            return Answer::refused;
        case 0x86:
            return Answer::unknown;
        default:
            throw Broken("binary status " + std::to_string(status));
    }
}

Answer Client::packet_status() { return status(read_packet(packets_).status); }

Answer Client::store(Wire wire, Verb verb, std::string_view key, std::string_view value,
                     int64_t exptime, uint64_t cas) {
    out_.clear();
    const size_t v = size_t(verb);
    if (wire == Wire::binary) {
        std::string extras;
        if (verb != Verb::append && verb != Verb::prepend)
            extras = four_bytes(0) + four_bytes(uint32_t(exptime));
        append_packet(out_, opcodes[v], extras, key, value, cas);
        packets_.send_all(out_);
        const Answer answer = packet_status();
        // add of what exists and replace of what does not have statuses of their own here.
        if (verb == Verb::add && answer == Answer::exists) return Answer::refused;
        if (verb == Verb::replace && answer == Answer::absent) return Answer::refused;
        return answer;
    }
    if (wire == Wire::meta) {
        out_.append("ms ").append(key).append(" ").append(std::to_string(value.size()));
        out_.append(" T").append(std::to_string(exptime)).append(" M").append(meta_modes[v]);
        if (verb == Verb::cas) out_.append(" C").append(std::to_string(cas));
    } else {
        out_.append(text_verbs[v])
            .append(" ")
            .append(key)
            .append(" 0 ")
            .append(std::to_string(exptime));
        out_.append(" ").append(std::to_string(value.size()));
        if (verb == Verb::cas) out_.append(" ").append(std::to_string(cas));
    }
    out_.append("\r\n").append(value).append("\r\n");
    lines_.send_all(out_);
    return wire == Wire::meta ? meta_word(lines_.line()) : word(lines_.line());
}

Answer Client::store_quietly(Wire wire, std::string_view key, std::string_view value) {
    out_.clear();
    if (wire == Wire::binary) {
        append_packet(out_, opcode_setq, four_bytes(0) + four_bytes(0), key, value);
        append_packet(out_, opcode_noop, {}, {}, {});
        packets_.send_all(out_);
        Packet p = read_packet(packets_);
        if (p.opcode == opcode_noop) return Answer::ok;
        const Answer answer = status(p.status);
        p = read_packet(packets_);
        if (answer != Answer::unknown || p.opcode != opcode_noop) throw Broken("SETQ was answered");
        return answer;
    }
    if (wire == Wire::meta) {
        out_.append("ms ").append(key).append(" ").append(std::to_string(value.size()));
        out_.append(" q\r\n");
    } else {
        out_.append("set ").append(key).append(" 0 0 ").append(std::to_string(value.size()));
        out_.append(" noreply\r\n");
    }
    out_.append(value).append("\r\nmn\r\n");
    lines_.send_all(out_);
    std::string line(lines_.line());
    if (line == "MN") return Answer::ok;
    const Answer answer = meta_word(line);
    line = lines_.line();
    if (answer != Answer::unknown || line != "MN") throw Broken("a quiet store was answered");
    return answer;
}

Found Client::text_value() {
    Found found;
    const std::string_view line = lines_.line();
    if (line == "END") return found;
    const std::vector<std::string_view> w = words(line);
    if (w.size() != 5 || w[0] != "VALUE")
        throw Broken("reply to gets: " + std::string(line.substr(0, 200)));
    const size_t bytes = size_t(number(w[3]));
    found.cas = number(w[4]);
    found.value = lines_.bytes(bytes);
    if (lines_.bytes(2) != "\r\n") throw Broken("a value does not end with CRLF");
    found.hit = true;
    return found;
}

Found Client::meta_value() {
    Found found;
    const std::string_view line = lines_.line();
    if (line == "EN") return found;
    const std::vector<std::string_view> w = words(line);
    if (w.size() != 3 || w[0] != "VA" || w[2][0] != 'c')
        throw Broken("mg reply: " + std::string(line.substr(0, 200)));
    const size_t bytes = size_t(number(w[1]));
    found.cas = number(w[2].substr(1));
    found.value = lines_.bytes(bytes);
    if (lines_.bytes(2) != "\r\n") throw Broken("a value does not end with CRLF");
    found.hit = true;
    return found;
}

Found Client::get(Wire wire, std::string_view key, std::optional<uint32_t> exptime) {
    out_.clear();
    if (wire == Wire::binary) {
        append_packet(out_, exptime ? opcode_gat : opcode_get, exptime ? four_bytes(*exptime) : "", key, {});
        packets_.send_all(out_);
        const Packet p = read_packet(packets_);
        Found found;
        found.hit = status(p.status) == Answer::ok;
        if (found.hit) {
            found.cas = p.cas;
            found.value = p.body.substr(size_t(p.extras_bytes) + p.key_bytes);
        }
        return found;
    }
    const std::string until = exptime ? std::to_string(*exptime) : "";
    if (wire == Wire::meta)
        out_.append("mg ").append(key).append(" v c").append(exptime ? " T" + until : "").append("\r\n");
    else
        out_.append(exptime ? "gats " + until + " " : "gets ").append(key).append("\r\n");
    lines_.send_all(out_);
    if (wire == Wire::meta) return meta_value();
    Found found = text_value();
    if (found.hit && lines_.line() != "END") throw Broken("gets does not end with END");
    return found;
}

std::vector<Found> Client::get_many(Wire wire, const std::vector<std::string>& keys) {
    out_.clear();
    if (wire == Wire::binary) return get_many_binary(keys);
    if (wire == Wire::text) return get_many_text(keys);
    for (const std::string& key : keys) out_.append("mg ").append(key).append(" v c\r\n");
    lines_.send_all(out_);
    std::vector<Found> found;
    for (size_t i = 0; i < keys.size(); i++) found.push_back(meta_value());
    return found;
}

std::vector<Found> Client::get_many_text(const std::vector<std::string>& keys) {
    out_.append("gets");
    for (const std::string& key : keys) out_.append(" ").append(key);
    out_.append("\r\n");
    lines_.send_all(out_);
    std::vector<Found> found(keys.size());
    size_t next = 0;
    while (true) {
        const std::string line(lines_.line());
        if (line == "END") return found;
        const std::vector<std::string_view> w = words(line);
        if (w.size() != 5 || w[0] != "VALUE") throw Broken("reply to gets: " + line.substr(0, 200));
        while (next < keys.size() && keys[next] != w[1]) next++;  // replies come in the order asked
        if (next == keys.size())
            throw Broken("gets returned a key out of order: " + std::string(w[1]));
        found[next].hit = true;
        found[next].cas = number(w[4]);
        found[next].value = lines_.bytes(size_t(number(w[3])));
        if (lines_.bytes(2) != "\r\n") throw Broken("a value does not end with CRLF");
        next++;
    }
}

std::vector<Found> Client::get_many_binary(const std::vector<std::string>& keys) {
    for (size_t i = 0; i < keys.size(); i++)
        append_packet(out_, opcode_getkq, {}, keys[i], {}, 0, uint32_t(i));
    append_packet(out_, opcode_noop, {}, {}, {});
    packets_.send_all(out_);
    std::vector<Found> found(keys.size());
    while (true) {
        const Packet p = read_packet(packets_);
        if (p.opcode == opcode_noop) return found;
        if (p.opcode != opcode_getkq || p.status != 0 || p.opaque >= keys.size())
            throw Broken("reply to GETKQ");
        if (p.body.substr(p.extras_bytes, p.key_bytes) != keys[p.opaque])
            throw Broken("GETKQ of another key");
        found[p.opaque] = {true, p.cas,
                           std::string(p.body.substr(size_t(p.extras_bytes) + p.key_bytes))};
    }
}

Answer Client::remove(Wire wire, std::string_view key) {
    out_.clear();
    if (wire == Wire::binary) {
        append_packet(out_, opcode_delete, {}, key, {});
        packets_.send_all(out_);
        return packet_status();
    }
    out_.append(wire == Wire::meta ? "md " : "delete ").append(key).append("\r\n");
    lines_.send_all(out_);
    return wire == Wire::meta ? meta_word(lines_.line()) : word(lines_.line());
}

Answer Client::touch(Wire wire, std::string_view key, uint32_t exptime) {
    out_.clear();
    if (wire == Wire::binary) {
        append_packet(out_, opcode_touch, four_bytes(exptime), key, {});
        packets_.send_all(out_);
        return packet_status();
    }
    out_.append(wire == Wire::meta ? "mg " : "touch ")
        .append(key)
        .append(wire == Wire::meta ? " T" : " ");
    out_.append(std::to_string(exptime)).append("\r\n");
    lines_.send_all(out_);
    return wire == Wire::meta ? meta_word(lines_.line()) : word(lines_.line());
}

Answer Client::increment(Wire wire, std::string_view key, uint64_t& value) {
    out_.clear();
    if (wire == Wire::binary) {
        std::string extras;
        big_endian(extras, 1, 8);
        big_endian(extras, 0, 8);
        extras += four_bytes(UINT32_MAX);  // do not create
        append_packet(out_, opcode_increment, extras, key, {});
        packets_.send_all(out_);
        const Packet p = read_packet(packets_);
        const Answer answer = status(p.status);
        if (answer == Answer::ok) value = from_big_endian(p.body);
        return answer;
    }
    if (wire == Wire::meta) {
        out_.append("ma ").append(key).append(" v\r\n");
        lines_.send_all(out_);
        const std::string_view line = lines_.line();
        if (!line.starts_with("VA ")) return meta_word(line);
        value = number(lines_.line());
        return Answer::ok;
    }
    out_.append("incr ").append(key).append(" 1\r\n");
    lines_.send_all(out_);
    const std::string_view line = lines_.line();
    if (line == "NOT_FOUND" || line == unavailable) return word(line);
    value = number(line);
    return Answer::ok;
}

Answer Client::flush_all(Wire wire) {
    out_.clear();
    if (wire != Wire::binary) {
        lines_.send_all("flush_all\r\n");
        return word(lines_.line());
    }
    append_packet(out_, opcode_flush, {}, {}, {});
    packets_.send_all(out_);
    return packet_status();
}

Answer Client::delete_prefix(std::string_view prefix) {
    orders_->send_all("delete_prefix " + std::string(prefix) + "\r\n");
    const std::string_view line = orders_->line();
    return line.starts_with("SERVER_ERROR not every node has confirmed") ? Answer::unknown : word(line);
}

}  // namespace consistency
