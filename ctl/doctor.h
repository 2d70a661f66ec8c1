// SPDX-License-Identifier: BSD-3-Clause
// `farctl doctor`: judges this host (ctl/machine.h) and the daemons that answer. Each finding has its remedy. The checks are pure;
// consult() collects their facts.
// Owner: main; one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ctl/machine.h"
#include "ctl/server.h"
#include "ctl/show.h"
#include "ctl/survey.h"

namespace farcached::ctl {

enum class Verdict : uint8_t { ok, note, wrong };

struct Finding {
    Verdict verdict = Verdict::ok;
    std::string subject, text;
    std::string remedy = {};  // empty if ok
};

// A daemon that answers.
struct Patient {
    std::string socket;
    bool is_proxy = false;
    std::string version;
    Stats stats, settings, config;        // settings: of a proxy
    std::optional<ProcessLimits> limits;  // none: not visible from here
    bool has_pointer_table = false;       // of a proxy
};

struct Case {
    Machine machine;
    std::string own_version;              // of farctl
    std::vector<Patient> patients;
    std::vector<std::string> absent;      // sockets without a daemon that were not named
    std::vector<Failure> failures;        // daemons that do not answer
    Survey survey;
};

std::vector<Finding> findings_of(const Case& facts);

// is_named: the sockets were named by the user, so a missing one is wrong.
Case consult(std::vector<Server>& servers, bool is_named);

bool is_any_wrong(const std::vector<Finding>& findings);
std::string doctor_text(const std::vector<Finding>& findings, Look look = {});
Json json_of(const std::vector<Finding>& findings);

}  // namespace farcached::ctl
