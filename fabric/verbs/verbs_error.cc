// SPDX-License-Identifier: BSD-3-Clause
#include "fabric/verbs/verbs_error.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace farcached::fabric {

namespace {

std::string_view kind_name(WorkKind kind) {
    switch (kind) {
        case WorkKind::message: return "SEND";
        case WorkKind::credits: return "SEND of credits";
        case WorkKind::read: return "READ";
        case WorkKind::count: return "FETCH_AND_ADD";
        case WorkKind::beat: return "empty WRITE";
        case WorkKind::write: return "WRITE";
        case WorkKind::bind: return "BIND_MW";
        case WorkKind::receive: return "RECV";
    }
    return "work request";
}

std::string at(std::string_view device) { return device.empty() ? "" : " at " + std::string(device); }

}  // namespace

Problem verbs_call_failed(std::string_view call, std::string_view device, int error) {
    std::string text = std::string(call) + at(device) + ": " + std::strerror(error);
    if (error == ENOMEM || error == EMFILE || error == ENFILE)
        text += "; see the limits of this process (LimitMEMLOCK=infinity and LimitNOFILE in its unit file) and of the "
                "device (rdma resource show)";
    if (error == EACCES || error == EPERM) text += "; give this user access to /dev/infiniband (group rdma)";
    if (error == ENODEV || error == EADDRNOTAVAIL)
        text += "; no RDMA device has this address (rdma link show, ip address show)";
    return system_problem(std::move(text));
}

Problem verbs_memory_refused(std::string_view device, size_t bytes, int error) {
    std::string text = "ibv_reg_mr of " + std::to_string((bytes + (1 << 20) - 1) >> 20) + " MiB" + at(device) + ": " +
                       std::strerror(error);
    if (error == ENOMEM || error == EAGAIN || error == EPERM)
        text += "; the limit on locked memory must allow that much: LimitMEMLOCK=infinity in the unit file, or "
                "ulimit -l unlimited";
    return system_problem(std::move(text));
}

Problem verbs_not_here(int error) {
    if (const std::string& why = rdma_libraries_missing(); !why.empty())
        return system_problem("RDMA cannot be used: " + why + "; install librdmacm1 (Fedora: librdmacm) and restart");
    // librdmacm reports a file that it may not open as missing.
    constexpr const char* manager = "/dev/infiniband/rdma_cm";
    if (access(manager, F_OK) == 0 && access(manager, R_OK | W_OK) != 0) error = EACCES;
    const char* remedy = "; there is no RDMA device (rdma link show), or the module rdma_ucm is not loaded";
    if (error == EACCES || error == EPERM) remedy = "; give this user access to /dev/infiniband/rdma_cm (group rdma)";
    if (error == EMFILE || error == ENFILE) remedy = "; raise LimitNOFILE in the unit file";
    return system_problem(std::string("RDMA cannot be used: ") + std::strerror(error) + remedy);
}

VerbsBadCompletion verbs_completed_badly(std::string_view device, WorkKind kind, ibv_wc_status status) {
    VerbsBadCompletion bad{ChannelEnd::system,
                           std::string(kind_name(kind)) + at(device) + ": " + ibv_wc_status_str(status), false};
    switch (status) {
        case IBV_WC_RETRY_EXC_ERR:
            bad.why = ChannelEnd::timed_out;
            bad.text += "; its host, its process or the network does not respond";
            break;
        case IBV_WC_RNR_RETRY_EXC_ERR:
            bad.why = ChannelEnd::corrupt;
            bad.text += "; it has posted fewer receives than announced";
            break;
        case IBV_WC_REM_ACCESS_ERR:
        case IBV_WC_REM_INV_REQ_ERR:
        case IBV_WC_REM_OP_ERR:
            bad.why = ChannelEnd::reset;
            bad.refused = true;
            bad.text += "; it no longer grants READ access to its memory";
            break;
        case IBV_WC_LOC_LEN_ERR:
            bad.why = ChannelEnd::corrupt;
            bad.text += "; a message was longer than agreed";
            break;
        case IBV_WC_LOC_QP_OP_ERR:
            bad.why = ChannelEnd::unreachable;
            bad.text += "; the device cannot send (rdma link show: is it up?)";
            break;
        case IBV_WC_WR_FLUSH_ERR: bad.why = ChannelEnd::reset; break;
        default: break;
    }
    return bad;
}

}  // namespace farcached::fabric
